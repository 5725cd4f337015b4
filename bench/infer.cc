// Inference in i8 beside f32, on one thread: bytes of the arena, processor time, and how far the result is off.
//
// Weights are made up, as large as keeps the size of what goes through them, and biases are zero: the biases that
// models start with would be most of an untrained model's result, and hide its error.
//
// usage: bench_infer [MODEL]...
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <memory>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/models/step.h"
#include "plimsoll/run/floats.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/initialize.h"
#include "plimsoll/train/synthetic.h"

namespace plimsoll {
namespace {

constexpr int kRuns = 7;
constexpr int64_t kTokens = 256;

struct Case {
  std::string model;
  int64_t batch = 1;
};

const std::vector<Case> kCases = {{"resnet18"},    {"resnet50"}, {"resnet50", 32}, {"vgg16"},  {"mobilenet_v2"},
                                  {"densenet121"}, {"unet"},     {"p13"},          {"p13", 4}, {"vit_b_16"},
                                  {"gpt2-nano"},   {"gpt2"},     {"bert_base"}};

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

models::Init init_of(const std::string& name, models::Init init) {
  if (name.ends_with("bias")) return models::constant(0);
  if (init.kind == models::Init::Kind::uniform) init.scale *= std::sqrt(6);
  return init;
}

void start(run::Executor& executor, const models::Step& step) {
  uint64_t stream = 0;
  for (size_t i = 0; i < step.inits.size(); ++i, ++stream) {
    const program::Value value = step.program.parameters[i];
    const models::Init init = init_of(step.program[value].name, step.inits[i]);
    const auto found = std::find_if(step.quantized.begin(), step.quantized.end(),
                                    [&](const program::QuantizedParameter& q) { return q.weights == value; });
    if (found == step.quantized.end()) {
      train::start_value(executor, value, init, 1, stream);
    } else {
      executor.fill<int8_t>(value, [&](std::span<int8_t> into) {
        executor.fill<float>(found->scales,
                             [&](std::span<float> scales) { models::draw(init, into, scales, 1, stream); });
      });
    }
  }
  for (size_t i = 0; i < step.state_inits.size(); ++i, ++stream) {
    train::start_value(executor, step.program.state[i], step.state_inits[i], 1, stream);
  }
}

// A model in one precision, ready to run.
struct Running {
  std::unique_ptr<run::Session> session;
  double least_s = INFINITY;

  Running(const Case& of, DType precision) {
    const models::ModelInfo& model = models::find_model(of.model);
    models::StepOptions options = {.training = false, .precision = precision, .sizes = {{"batch", of.batch}}};
    if (model.usual.contains("sequence")) options.sizes["sequence"] = kTokens;
    const models::Step step = models::build_whole_step(model, options);
    session = std::make_unique<run::Session>(step.program, kernels::DeviceOptions{.threads = 1}, machine_budget());
    start(session->executor(), step);
    train::fill_inputs(session->executor(), 1);
  }

  void run() {
    const double before = processor_seconds();
    session->executor().step();
    least_s = std::min(least_s, processor_seconds() - before);
  }
  std::vector<float> result() {
    return run::read_floats(session->executor(), session->executor().program().outputs[0]);
  }
};

double relative_error(const std::vector<float>& found, const std::vector<float>& right) {
  double difference = 0;
  double length = 0;
  for (size_t i = 0; i < right.size(); ++i) {
    const auto r = static_cast<double>(right[i]);
    difference += std::pow(static_cast<double>(found[i]) - r, 2);
    length += r * r;
  }
  return std::sqrt(difference / length);
}

void bench(const Case& of) {
  Running f32(of, DType::f32);
  Running i8(of, DType::i8);
  for (int i = 0; i < kRuns; ++i) {  // in turns, so that a busy machine is so for both
    f32.run();
    i8.run();
  }
  const int64_t wide = f32.session->arena_bytes();
  const int64_t narrow = i8.session->arena_bytes();
  fmt::print("| {} | {} | {} | {} | {:.1f} | {:.1f} | {:.1f} | {:.2f} | {:.1f} % |\n", of.model, of.batch,
             format_bytes(wide), format_bytes(narrow), static_cast<double>(wide) / static_cast<double>(narrow),
             f32.least_s * 1e3, i8.least_s * 1e3, f32.least_s / i8.least_s,
             100 * relative_error(i8.result(), f32.result()));
  std::fflush(stdout);
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  std::vector<plimsoll::Case> cases = plimsoll::kCases;
  if (argc > 1) cases.clear();
  for (int i = 1; i < argc; ++i) cases.push_back({argv[i]});
  fmt::print("| model | batch | f32 | i8 | times less | f32 ms | i8 ms | times faster | error |\n");
  fmt::print("|---|---|---|---|---|---|---|---|---|\n");
  for (const plimsoll::Case& of : cases) plimsoll::bench(of);
}
