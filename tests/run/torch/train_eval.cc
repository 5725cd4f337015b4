// Trains a model of the zoo for two steps, for the comparison with PyTorch:
//   train_eval MODEL small|full BEFORE AFTER [SIZE=NUMBER ..]
// writes what comes in and what is kept to the file BEFORE, what is kept afterwards to AFTER, as safetensors, and
// prints the losses. SGD with momentum 0.9 at a rate of 0.0001; nothing is dropped by dropout.
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "plimsoll/memory/limits.h"
#include "plimsoll/models/zoo/zoo.h"
#include "plimsoll/program/train_step.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/initialize.h"
#include "plimsoll/train/synthetic.h"
#include "plimsoll/train/trainer.h"

namespace plimsoll {
namespace {

using program::Program;
using program::Value;

// Both would have to draw the same elements.
void drop_nothing(Program& program) {
  for (program::Op& op : program.ops) {
    for (size_t i = 0; i < op.attributes.size(); ++i) {
      if (op.def->name == "dropout" && op.def->attributes[i].name == "rate") op.attributes[i] = program::Attribute(0.0);
    }
  }
}

struct Start {
  Program program;
  std::vector<models::Init> inits;
  std::vector<models::Init> state_inits;
};

Start training_step(const models::ModelInfo& info, models::Size size, const program::Bindings& sizes) {
  models::Model model = info.build({}, size);
  drop_nothing(model.program);
  const Program step =
      program::training_step(std::move(model.program), model.loss, {.optimizer = program::Optimizer::momentum});
  return {program::bind(step, models::bindings(info, sizes)), model.inits, model.state_inits};
}

void draw(run::Executor& executor, const Start& start) {
  uint64_t stream = 0;
  const auto draw_all = [&](const std::vector<Value>& values, const std::vector<models::Init>& inits) {
    for (size_t i = 0; i < inits.size(); ++i) train::start_value(executor, values[i], inits[i], 1, stream++);
  };
  draw_all(start.program.parameters, start.inits);
  draw_all(start.program.state, start.state_inits);
}

void write_safetensors(const std::string& path, run::Executor& executor, const std::vector<Value>& values) {
  nlohmann::ordered_json header;
  std::string data;
  for (const Value value : values) {
    const program::ValueInfo& info = executor.program()[value];
    const bool wide = element_bytes(info.type.dtype) == 8;
    const size_t first = data.size();
    executor.view_bytes(value, [&](std::span<const std::byte> bytes) {
      data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    });
    header[info.name] = {{"dtype", wide ? "I64" : "F32"},
                         {"shape", info.type.spec().shape.dims()},
                         {"data_offsets", {first, data.size()}}};
  }
  const std::string text = header.dump();
  const uint64_t size = text.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), sizeof(size));
  file << text << data;
}

void train_two_steps(const std::vector<std::string>& arguments) {
  program::Bindings sizes;
  for (size_t i = 4; i < arguments.size(); ++i) {
    const size_t sign = arguments[i].find('=');
    sizes[arguments[i].substr(0, sign)] = std::stoll(arguments[i].substr(sign + 1));
  }
  const Start start = training_step(models::find_model(arguments.at(0)),
                                    arguments.at(1) == "small" ? models::Size::small : models::Size::full, sizes);
  run::Session session(start.program, {}, machine_budget());
  run::Executor& executor = session.executor();
  draw(executor, start);
  constexpr double kRate = 1e-4;
  train::Trainer trainer(executor, {.rate = kRate});
  train::fill_inputs(executor,
                     train::TrainerOptions().seed);  // with the batch that the trainer reads in its first step
  executor.write_one<float>(executor.program().find("optimizer.rate"), static_cast<float>(kRate));
  std::vector<Value> kept = start.program.parameters;
  kept.insert(kept.end(), start.program.state.begin(), start.program.state.end());
  std::vector<Value> all = kept;
  all.insert(all.end(), start.program.inputs.begin(), start.program.inputs.end());
  write_safetensors(arguments.at(2), executor, all);
  const float losses[] = {trainer.step(), trainer.step()};
  write_safetensors(arguments.at(3), executor, kept);
  fmt::print("{}\n", nlohmann::json(losses).dump());
}

}  // namespace
}  // namespace plimsoll

int main(int count, char** arguments) {
  try {
    plimsoll::train_two_steps({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    fmt::print(stderr, "train_eval: {}\n", error.what());
    return 1;
  }
}
