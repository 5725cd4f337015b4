// What a card's libraries and plans take, for tests on machines without one: the workspace of every convolution of the
// zoo's models, and the arena of a training step of each.
//
//   bench_gpu_record FILE.json [MODEL..]
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "plimsoll/base/bytes.h"
#include "plimsoll/device/cuda/cards.h"
#include "plimsoll/device/cuda/nvml.h"
#include "plimsoll/device/device.h"
#include "plimsoll/models/step.h"
#include "plimsoll/plan/memory_plan.h"

namespace {

using namespace plimsoll;

nlohmann::json arenas_of(const std::vector<std::string>& names) {
  nlohmann::json arenas = nlohmann::json::object();
  for (const std::string& name : names) {
    for (const DType precision : {DType::f32, DType::bf16}) {
      const std::string key = fmt::format("{} {}", name, plimsoll::name(precision));
      try {
        const models::Step step = models::build_whole_step(models::find_model(name), {.precision = precision});
        const kernels::Lowered lowered = kernels::prepare(step.program, {.device = "cuda", .threads = 1});
        arenas[key] = plan::plan_memory(lowered).placement.arena_bytes;
      } catch (const std::exception& error) {
        fmt::print("{}: {}\n", key, error.what());
      }
    }
  }
  return arenas;
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) {
    fmt::print("usage: bench_gpu_record FILE.json [MODEL..]\n");
    return 2;
  }
  std::vector<std::string> names(words + 2, words + count);
  if (names.empty()) {
    for (const models::ModelInfo& model : models::all_models()) names.push_back(model.name);
  }
  const cuda::Workspaces workspaces;
  nlohmann::json file;
  file["card"] = device::find_device("cuda").cost_id();
  file["arenas"] = arenas_of(names);
  file["workspaces"] = workspaces.found();
  std::ofstream(words[1]) << file.dump(1) << "\n";
  fmt::print("beside arenas: {}\n", format_bytes(device::find_device("cuda").overhead_bytes()));
  for (const cuda::CardMemory& card : cuda::card_memory()) {
    fmt::print("{} {}: {} of {} in use\n", card.name, card.bus_id, format_bytes(card.used_bytes),
               format_bytes(card.total_bytes));
  }
  fmt::print("{}: {} arenas, {} convolutions\n", words[1], file["arenas"].size(), file["workspaces"].size());
  return 0;
}
