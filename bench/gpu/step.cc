// Training steps on a card: the same models and batches as bench/gpu/step_torch.py, medians of whole steps as the card
// runs them, the arena, and what each kind of op takes.
//
//   bench_gpu_step MODEL.. [--batch N] [--seq N] [--chunks N] [--precision bf16] [--optimizer adamw] [--rounds N]
//   [--tokens N] [--no-dropout] [--budget SIZE|SHARE%].. [--profile]
//
// Budgets are of the arena, in bytes or as a share of what the step takes unplanned; each is planned by measured costs.
// --tokens and --no-dropout are for gpt2.
#include "plimsoll/models/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "plimsoll/base/bytes.h"
#include "plimsoll/device/cuda/runtime.h"
#include "plimsoll/device/device.h"
#include "plimsoll/models/zoo/transformer.h"
#include "plimsoll/plan/plan.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/initialize.h"
#include "plimsoll/train/measure.h"
#include "plimsoll/train/trainer.h"

namespace {

using namespace plimsoll;
using Clock = std::chrono::steady_clock;

struct Options {
  std::vector<std::string> models;
  int64_t batch = 0;
  int64_t sequence = 0;
  int64_t chunks = 1;  // of the batch, in the ops that make the loss
  std::string precision = "bf16";
  std::string optimizer = "adamw";
  int rounds = 20;
  int64_t tokens = 50257;
  double dropout = 0.1;
  std::vector<std::string> budgets;
  bool profile = false;

  bool is_usual_gpt2() const { return tokens == 50257 && dropout == 0.1; }
};

Options parse(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto next = [&] { return std::string(i + 1 < count ? words[++i] : ""); };
    if (word == "--batch") {
      options.batch = std::stoll(next());
    } else if (word == "--seq") {
      options.sequence = std::stoll(next());
    } else if (word == "--chunks") {
      options.chunks = std::stoll(next());
    } else if (word == "--precision") {
      options.precision = next();
    } else if (word == "--optimizer") {
      options.optimizer = next();
    } else if (word == "--rounds") {
      options.rounds = std::stoi(next());
    } else if (word == "--tokens") {
      options.tokens = std::stoll(next());
    } else if (word == "--no-dropout") {
      options.dropout = 0;
    } else if (word == "--budget") {
      options.budgets.push_back(next());
    } else if (word == "--profile") {
      options.profile = true;
    } else {
      options.models.push_back(word);
    }
  }
  return options;
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

// Seconds of each op of a step, run again and again on its own, in memory of its own.
std::vector<double> seconds_by_op(const kernels::Lowered& lowered, device::Device& card) {
  constexpr int kTimes = 5;
  const plan::MemoryPlan plan = plan::plan_memory(lowered);
  const auto pages = card.pages(plan.placement.arena_bytes);
  Arena arena(*pages, plan.placement.arena_bytes, card.budget());
  const auto stream = card.stream();
  std::vector<double> seconds;
  for (size_t i = 0; i < lowered.ops.size(); ++i) {
    seconds.push_back(0);
    if (!lowered.ops[i].kernel.bind) continue;
    const program::Op& op = lowered.program.ops[i];
    const auto at = [&](program::Value value) {
      return value ? arena.data() + plan.offset_of(lowered.program, value) : nullptr;
    };
    kernels::Memory memory;
    for (const program::Value value : op.inputs) memory.inputs.push_back(at(value));
    for (const program::Value value : op.outputs) memory.outputs.push_back(at(value));
    memory.scratch = arena.data() + plan.scratch_offset(static_cast<int32_t>(i));
    const kernels::Task task = lowered.ops[i].kernel.bind(memory);
    task(*stream);
    stream->synchronize();
    const auto start = Clock::now();
    for (int round = 0; round < kTimes; ++round) task(*stream);
    stream->synchronize();
    seconds.back() = seconds_since(start) / kTimes;
  }
  return seconds;
}

void print_profile(const program::Program& program, const std::vector<double>& seconds) {
  struct Sum {
    double seconds = 0;
    int count = 0;
    double flops = 0;
    double bytes = 0;
  };
  std::map<std::string, Sum> kinds;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const program::Op& op = program.ops[i];
    Sum& sum = kinds[op.def->name];
    sum.seconds += seconds[i];
    if (seconds[i] > 0) ++sum.count;
    sum.flops += static_cast<double>(program::flops(program, op).constant());
    sum.bytes += static_cast<double>(program::traffic_bytes(program, op).constant());
  }
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [name, sum] : kinds) order.emplace_back(sum.seconds, name);
  std::sort(order.rbegin(), order.rend());
  for (const auto& [took, name] : order) {
    if (took == 0) continue;
    const Sum& sum = kinds[name];
    fmt::print("  {:<28} {:>4} x {:>9.3f} ms {:>7.1f} TFLOP/s {:>7.0f} GB/s\n", name, sum.count, took * 1e3,
               sum.flops / took / 1e12, sum.bytes / took / 1e9);
  }
}

// The ops that take longest, each with the shape of its first operand and result.
void print_longest(const program::Program& program, const std::vector<double>& seconds) {
  constexpr size_t kShown = 30;
  std::vector<size_t> order(seconds.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return seconds[a] > seconds[b]; });
  for (size_t i = 0; i < std::min(kShown, order.size()) && seconds[order[i]] > 0; ++i) {
    const program::Op& op = program.ops[order[i]];
    const double took = seconds[order[i]];
    const auto text = [&](const std::vector<program::Value>& values) {
      return values.empty() || !values[0] ? std::string("-") : program[values[0]].type.text();
    };
    fmt::print("    {:<26} {:>28} -> {:<28} {:>8.3f} ms {:>7.1f} TFLOP/s {:>6.0f} GB/s\n", op.def->name,
               text(op.inputs), text(op.outputs), took * 1e3,
               static_cast<double>(program::flops(program, op).constant()) / took / 1e12,
               static_cast<double>(program::traffic_bytes(program, op).constant()) / took / 1e9);
  }
}

models::ModelInfo model_of(const std::string& name, const Options& options) {
  models::ModelInfo model = models::find_model(name);
  if (name == "gpt2" && !options.is_usual_gpt2()) {
    model.build = [&options](const models::NetOptions& net, models::Size) {
      return models::build_gpt2_of(net, {.tokens = options.tokens, .positions = 1024, .dropout = options.dropout});
    };
  }
  return model;
}

models::Step step_of(const models::ModelInfo& model, const Options& options) {
  models::StepOptions asked;
  asked.precision = options.precision == "tf32" ? DType::f32 : parse_dtype(options.precision);
  asked.train.optimizer = *program::try_parse_optimizer(options.optimizer);
  if (options.batch > 0) asked.sizes["batch"] = options.batch;
  if (options.sequence > 0) asked.sizes["sequence"] = options.sequence;
  if (options.chunks > 1) {
    const program::ChunkPlaces places = models::find_chunk_places(model, asked);
    asked.form = {.chunks = options.chunks, .last = places.last.at(0)};
  }
  return models::build_whole_step(model, asked);
}

// Runs steps of a prepared program and prints their times; `what` says how it was planned.
void run_planned(const std::string& what, const models::Step& step, run::Planned planned, const Options& options) {
  const auto begin = Clock::now();
  std::vector<run::Planned> programs;
  programs.push_back(std::move(planned));
  run::Session session(std::move(programs), device::find_device("cuda").budget());
  run::Executor& executor = session.executor();
  const double bound_s = seconds_since(begin);
  train::start_values(executor, step.inits, step.state_inits, 1, step.quantized);
  train::Trainer trainer(executor, {.rate = 1e-4F});
  std::vector<float> losses;
  for (int i = 0; i < 3; ++i) losses.push_back(trainer.step());
  std::vector<double> times;
  for (int i = 0; i < options.rounds; ++i) {
    const auto start = Clock::now();
    executor.step();
    times.push_back(seconds_since(start));
  }
  const cuda::Runtime& runtime = cuda::Runtime::current();
  const int64_t beside = runtime.overhead_bytes() + runtime.grown_bytes();
  fmt::print(
      "{}: {:.2f} ms a step (median of {}, least {:.2f}), arena {}, beside it {}, {} ops, bound in {:.1f} s, losses "
      "{:.5f} {:.5f} {:.5f}\n",
      what, median(times) * 1e3, options.rounds, *std::min_element(times.begin(), times.end()) * 1e3,
      format_bytes(session.arena_bytes()), format_bytes(beside), executor.tasks(), bound_s, losses[0], losses[1],
      losses[2]);
  std::fflush(stdout);
}

int64_t budget_bytes(const std::string& text, int64_t unplanned) {
  if (text.ends_with("%")) return static_cast<int64_t>(std::stod(text) / 100 * static_cast<double>(unplanned));
  return parse_bytes(text);
}

std::string measures_text(const plan::Plan& plan) {
  std::map<std::string, int> counts;
  for (const plan::Measure& measure : plan.measures) {
    counts[measure.kind + " " + measure.what.substr(0, measure.what.find(' '))] += measure.times;
  }
  std::string text;
  for (const auto& [what, count] : counts) text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count, what);
  return text;
}

// Plans for each budget by what the ops take on the card, and runs the plans.
void run_budgets(const std::string& what, const models::Step& step, const kernels::Lowered& lowered,
                 const Options& options) {
  plan::CostTable table;
  const auto begin = Clock::now();
  train::measure_costs(lowered, {.budget = device::find_device("cuda").budget(), .time_limit_s = 30}, table);
  const plan::Costs costs = plan::costs_of(lowered, table);
  const int64_t unplanned = plan::plan_memory(lowered).placement.arena_bytes;
  fmt::print("  costs: {:.2f} ms, of which measured {:.2f}, in {:.1f} s\n", costs.all_s() * 1e3, costs.measured_s * 1e3,
             seconds_since(begin));
  for (const std::string& budget : options.budgets) {
    const auto start = Clock::now();
    const auto made = plan::make_plan(
        lowered,
        {.budget_bytes = budget_bytes(budget, unplanned), .op_seconds = costs.seconds, .find_smallest = false});
    if (const auto* refusal = std::get_if<plan::Refusal>(&made)) {
      fmt::print("{} budget {}: {}\n", what, budget, refusal->text());
      continue;
    }
    const auto& plan = std::get<plan::Plan>(made);
    fmt::print("  predicted {:.2f} ms, {:+.2f} over {:.2f} unplanned, planned in {:.1f} s: {}\n",
               plan.predicted_s * 1e3, (plan.predicted_s - plan.unplanned_s) * 1e3, plan.unplanned_s * 1e3,
               seconds_since(start), measures_text(plan));
    plan::Applied applied = plan::apply(plan, lowered);
    run_planned(fmt::format("{} budget {}", what, budget), step,
                {std::move(applied.lowered), std::move(applied.memory)}, options);
  }
}

void run_model(const std::string& name, const Options& options) {
  device::allow_tf32(options.precision == "tf32");
  const models::ModelInfo model = model_of(name, options);
  const models::Step step = step_of(model, options);
  device::Device& card = device::find_device("cuda");
  std::string what = fmt::format("{} {} batch {} chunks {}", name, options.precision, options.batch, options.chunks);
  if (!options.is_usual_gpt2()) what += fmt::format(" tokens {} dropout {}", options.tokens, options.dropout);
  run_planned(what, step, run::plan_as_it_is(step.program, {.device = "cuda"}), options);
  if (!options.profile && options.budgets.empty()) return;
  const kernels::Lowered lowered = kernels::prepare(step.program, {.device = "cuda"});
  if (!options.budgets.empty()) run_budgets(what, step, lowered, options);
  if (options.profile) {
    const std::vector<double> seconds = seconds_by_op(lowered, card);
    double sum = 0;
    for (const double one : seconds) sum += one;
    fmt::print("  ops one by one: {:.2f} ms\n", sum * 1e3);
    print_profile(lowered.program, seconds);
    print_longest(lowered.program, seconds);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  const Options options = parse(count, words);
  int status = 0;
  for (const std::string& name : options.models) {
    try {
      run_model(name, options);
    } catch (const std::exception& error) {
      fmt::print("{}: {}\n", name, error.what());
      status = 1;
    }
  }
  return status;
}
