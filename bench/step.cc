// Training steps beside PyTorch's on the same machine: the same models, batches, optimizer and threads, a step of ours
// and one of each of PyTorch's ways in turn, medians. PyTorch is taken at its best: eager and by torch.compile, a
// column each, in the better of its two memory formats. Beside them what the machine can do at all, measured in the
// same run, and the share of it that a step reaches. PLIMSOLL_MAX_ISA in the environment limits both.
//
//   bench_step [CASE].. [--precision f32|bf16|f16] [--rounds N] [--threads N] [--cpu] [--alone] [--eager]
//              [--compile-limit SECONDS] [--profile]
//
// In bf16 and f16 PyTorch runs under its autocast; both keep the weights in f32.
// --cpu counts processor time, all on one thread: for a machine that is not quiet. --alone leaves PyTorch out, --eager
// torch.compile, which is left out too where it is not ready within its limit (180 s); --profile lists what each kind
// of op took. PyTorch is bench/step_torch.py, run by the Python that PLIMSOLL_PYTHON in the environment names (`./dev
// bench` makes one with the newest PyTorch), else by the system's.
#include "plimsoll/models/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

#include "bench/torch_peer.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/convert.h"
#include "plimsoll/kernels/device.h"
#include "plimsoll/kernels/tiling.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/models/zoo/transformer.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/index.h"
#include "plimsoll/program/ops/linear.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/ops/slice.h"
#include "plimsoll/program/ops/softmax.h"
#include "plimsoll/program/text.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/initialize.h"
#include "plimsoll/train/trainer.h"

namespace {

using namespace plimsoll;
using bench::median;
using bench::Peer;
using bench::Torch;
using models::Model;
using models::Net;
using program::Value;

// ---- the models that the zoo does not have ----

// P11 with images of 128x128.
Model small_p11(DType precision) {
  Net net({.dtype = precision});
  Value x = net.input("x", {Net::batch(), 3, 128, 128});
  x = models::max_pool(net, models::relu(net, models::conv2d(net, "conv", x, 32, 3)), 2, 2);
  const Value y = program::softmax(net.b, models::linear(net, "dense", program::flatten(net.b, x), 10));
  return models::regress(std::move(net), y);
}

Value gpt_block(Net& net, Value x, int64_t width, int64_t heads) {
  const models::LinearOptions start = {.init = models::kTransformerInit};
  const Value qkv = models::linear(net, "c_attn", models::layer_norm(net, "ln_1", x), 3 * width, start);
  const Value mixed = models::self_attend(net, qkv, {.count = heads, .causal = true});
  x = program::add(net.b, x, models::linear(net, "c_proj", mixed, width, start));
  const Value wide = models::linear(net, "c_fc", models::layer_norm(net, "ln_2", x), 4 * width, start);
  return program::add(net.b, x, models::linear(net, "c_out", program::gelu_tanh(net.b, wide), width, start));
}

// GPT-2 with 6 layers of width 384 and without dropout.
Model small_gpt(DType precision) {
  constexpr int64_t kWidth = 384;
  Net net({.dtype = precision});
  const Value tokens = net.indices("tokens", {Net::batch(), 256});
  const Value wte = models::embedding_table(net, "wte", 8192, kWidth, models::kTransformerInit);
  const Value wpe = models::embedding_table(net, "wpe", 256, kWidth, models::kTransformerInit);
  Value x = program::add(net.b, program::embedding(net.b, wte, tokens), wpe);
  for (int layer = 0; layer < 6; ++layer) {
    const program::Scope scope(net.b, fmt::format("h.{}", layer));
    x = gpt_block(net, x, kWidth, 6);
  }
  return models::classify(std::move(net), program::linear(net.b, models::layer_norm(net, "ln_f", x), wte));
}

Model from_zoo(std::string_view name, DType precision) {
  return models::find_model(name).build({.dtype = precision}, models::Size::full);
}

struct Case {
  std::string name;
  int64_t batch;
  Model (*build)(DType precision);
  bool images = true;  // PyTorch has two memory formats for them
};

const Case kCases[] = {{"p11", 32, small_p11},
                       {"p14", 32, [](DType precision) { return from_zoo("p14", precision); }},
                       {"p13", 4, [](DType precision) { return from_zoo("p13", precision); }},
                       {"resnet18", 16, [](DType precision) { return from_zoo("resnet18", precision); }},
                       {"gpt", 8, small_gpt, false}};

// ---- ours ----

clockid_t g_clock = CLOCK_MONOTONIC;  // or processor time

bool wall_clock() { return g_clock == CLOCK_MONOTONIC; }

double now_ms() {
  timespec now{};
  clock_gettime(g_clock, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

class Ours {
 public:
  Ours(const Case& c, int threads, DType precision) {
    Model model = c.build(precision);
    step_ = program::bind(program::training_step(std::move(model.program), model.loss), {{"batch", c.batch}});
    session_ = std::make_unique<run::Session>(step_, kernels::DeviceOptions{.threads = threads}, machine_budget());
    run::Executor& executor = session_->executor();
    uint64_t stream = 0;
    const auto start = [&](const std::vector<Value>& values, const std::vector<models::Init>& inits) {
      for (size_t i = 0; i < inits.size(); ++i) {
        train::start_value(executor, values[i], inits[i], 1, stream++);
      }
    };
    start(step_.parameters, model.inits);
    start(step_.state, model.state_inits);
    trainer_ = std::make_unique<train::Trainer>(executor, train::TrainerOptions{});
  }

  double step_ms() {
    const double start = now_ms();
    trainer_->step();
    return now_ms() - start;
  }

  int64_t arena_bytes() const { return session_->executor().arena_bytes(); }

  // Of products and convolutions; what is left is not arithmetic but memory.
  double product_flops() const {
    double sum = 0;
    for (const program::Op& op : step_.ops) {
      const std::string& name = op.def->name;
      if (name.starts_with("conv") || name.starts_with("linear") || name.starts_with("matmul") ||
          name.starts_with("attention")) {
        sum += static_cast<double>(program::flops(step_, op).constant());
      }
    }
    return sum;
  }

  const program::Program& program() const { return step_; }

 private:
  program::Program step_;
  std::unique_ptr<run::Session> session_;
  std::unique_ptr<train::Trainer> trainer_;
};

// ---- what the machine can do ----

// The least time of several steps of a program.
double least_ms(const std::string& text, int threads) {
  run::Session session(program::parse_program(text), {.threads = threads}, machine_budget());
  double least = 1e9;
  for (int i = 0; i < 6; ++i) {
    const double start = now_ms();
    session.executor().step();
    least = std::min(least, now_ms() - start);
  }
  return least;
}

struct Ceiling {
  double matmul = 0;  // operations a second
  double conv = 0;
  double copy = 0;         // bytes a second, read and written
  double overhead_us = 0;  // of an op
};

// An op on one element: all of it is what the executor and the call of a kernel take.
double overhead_us() {
  constexpr int kOps = 1000;
  std::string text = "input %x0: f32[1]\n";
  for (int i = 0; i < kOps; ++i) text += fmt::format("%x{} = neg(%x{})\n", i + 1, i);
  return least_ms(text + fmt::format("output %x{}\n", kOps), 1) * 1e3 / kOps;
}

Ceiling measure_ceiling(int threads, DType precision) {
  Ceiling ceiling;
  const std::string_view dtype = name(precision);
  ceiling.matmul =
      2.0 * 2048 * 2048 * 2048 * 1e3 /
      least_ms(
          fmt::format("input %a: {0}[2048,2048]\ninput %b: {0}[2048,2048]\n%y = matmul(%a, %b)\noutput %y\n", dtype),
          threads);
  // 5x5, so that it is computed directly.
  ceiling.conv = 2.0 * 4 * 256 * 256 * 25 * 64 * 64 * 1e3 /
                 least_ms(fmt::format("input %x: {0}[4,256,64,64]\ninput %w: {0}[256,256,5,5]\n"
                                      "%y = conv(%x, %w) {{padding=[2]}}\noutput %y\n",
                                      dtype),
                          threads);
  ceiling.copy = 2.0 * 256 * static_cast<double>(kMiB) * 1e3 /
                 least_ms("input %x: f32[67108864]\n%y = neg(%x)\noutput %y\n", threads);
  ceiling.overhead_us = overhead_us();
  return ceiling;
}

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown CPU";
}

// The widest vector instructions that both sides may use.
std::string_view isa_text() {
  if (kernels::cpu_kernels().has_amx_tiles()) return "AMX";
  if (kernels::cpu_kernels().prefers_blocks()) return "AVX-512";
  const char* limit = std::getenv("PLIMSOLL_MAX_ISA");
  return limit != nullptr && std::string_view(limit) == "sse4" ? "SSE4" : "AVX2";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16] = {};
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

std::string dnnl_version() {
  const dnnl_version_t* version = dnnl::version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

// ---- where the time goes ----

// Numbers around zero; the first of all classes.
void fill(std::byte* at, const program::Type& type) {
  const bool half = kernels::is_low_precision(type.dtype);
  if (type.dtype != DType::f32 && !half) return;
  uint32_t state = 1;
  for (int64_t i = 0; i < type.shape.elements().constant(); ++i) {
    state = state * 1664525U + 1013904223U;
    const float number = (static_cast<float>(state >> 8) / 8388608.0F - 1) / 16;
    if (half) {
      kernels::downcast(type.dtype, {&number, 1}, reinterpret_cast<uint16_t*>(at + 2 * i));
    } else {
      reinterpret_cast<float*>(at)[i] = number;
    }
  }
}

// Runs the ops of a step one by one, each with the clock around it; medians by kind of op.
void profile(const program::Program& program, int threads, int rounds) {
  const kernels::Lowered lowered = kernels::prepare(program, {.threads = threads});
  const plan::MemoryPlan memory_plan = plan::plan_memory(lowered);
  const auto pages = device::cpu_device().pages(memory_plan.placement.arena_bytes);
  Arena arena(*pages, memory_plan.placement.arena_bytes, machine_budget());
  const program::Program& given = lowered.program;
  for (const auto* list : {&given.inputs, &given.parameters}) {
    for (const Value value : *list) fill(arena.data() + memory_plan.offset_of(given, value), given[value].type);
  }
  const auto stream = device::cpu_device().stream({.threads = threads});
  std::vector<kernels::Task> tasks;
  std::vector<std::string> labels;
  for (size_t i = 0; i < lowered.ops.size(); ++i) {
    if (!lowered.ops[i].kernel.bind) continue;
    const program::Op& op = lowered.program.ops[i];
    const auto at = [&](Value v) { return v ? arena.data() + memory_plan.offset_of(lowered.program, v) : nullptr; };
    kernels::Memory memory;
    for (const Value v : op.inputs) memory.inputs.push_back(at(v));
    for (const Value v : op.outputs) memory.outputs.push_back(at(v));
    memory.scratch = arena.data() + memory_plan.scratch_offset(static_cast<int32_t>(i));
    tasks.push_back(lowered.ops[i].kernel.bind(memory));
    labels.push_back(fmt::format("{} {}", op.def->name, lowered.program[op.outputs[0]].type.text()));
  }
  std::vector<std::vector<double>> times(tasks.size());
  for (int round = 0; round <= rounds; ++round) {
    for (size_t i = 0; i < tasks.size(); ++i) {
      const double start = now_ms();
      tasks[i](*stream);
      if (round > 0) times[i].push_back(now_ms() - start);
    }
  }
  std::map<std::string, std::pair<double, int>> by_label;
  double all = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    auto& [sum, count] = by_label[labels[i]];
    sum += median(times[i]);
    ++count;
    all += median(times[i]);
  }
  std::vector<std::pair<std::string, std::pair<double, int>>> rows(by_label.begin(), by_label.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  for (size_t i = 0; i < std::min<size_t>(rows.size(), 40); ++i) {
    fmt::print("  {:>9.2f} ms {:>5.1f} %  x{:<3} {}\n", rows[i].second.first, rows[i].second.first / all * 100,
               rows[i].second.second, rows[i].first);
  }
}

// ---- the table ----

struct Options {
  std::vector<std::string> cases;
  int rounds = 7;
  int threads = 2;
  bool alone = false;
  bool eager_only = false;
  int compile_limit_s = 180;
  bool profile = false;
  DType precision = DType::f32;
};

constexpr int kStartLimitS = 600;  // of eager PyTorch

struct Row {
  double eager = 0;     // PyTorch's time by ours; 0 where it was not measured
  double compiled = 0;  // that of torch.compile
  double memory = 0;    // our bytes by those of eager PyTorch
};

Peer start_peer(const Case& c, const std::string& execution, const Options& options) {
  Peer peer;
  std::vector<std::string> formats = {"contiguous"};
  if (c.images) formats.emplace_back("channels_last");
  for (const std::string& format : formats) {
    try {
      peer.processes.push_back(std::make_unique<Torch>(
          c.name, bench::TorchMode{execution, format, options.threads, options.precision, wall_clock(),
                                   execution == "compile" ? options.compile_limit_s : kStartLimitS}));
      peer.formats.push_back(format);
    } catch (const std::runtime_error& error) {
      if (execution == "eager") throw;
      fmt::print(stderr, "{}\n", error.what());  // what it needs may be missing: a compiler, Python's headers
    }
  }
  peer.ms.resize(peer.processes.size());
  peer.bytes.resize(peer.processes.size());
  return peer;
}

std::string ratio_text(double ratio) { return ratio > 0 ? fmt::format("{:.2f}", ratio) : "-"; }

Row compare(const Case& c, const Options& options, const Ceiling& ceiling) {
  Ours ours(c, options.threads, options.precision);
  Peer eager;
  Peer compiled;
  if (!options.alone) eager = start_peer(c, "eager", options);
  if (!options.alone && !options.eager_only) compiled = start_peer(c, "compile", options);
  std::vector<double> our_ms;
  for (int round = 0; round <= options.rounds; ++round) {  // the first is for warming up
    const double ms = ours.step_ms();
    if (round > 0) our_ms.push_back(ms);
    eager.step(round > 0);
    compiled.step(round > 0);
  }
  const double ms = median(our_ms);
  const double share = ours.product_flops() * 1e3 / ms / std::max(ceiling.matmul, ceiling.conv);
  Row row;
  std::string their_bytes = "-";
  if (!eager.processes.empty()) {
    const int64_t bytes = eager.bytes[eager.best()];
    row.eager = eager.best_ms() / ms;
    row.memory = static_cast<double>(ours.arena_bytes()) / static_cast<double>(bytes);
    their_bytes = format_bytes(bytes);
  }
  if (!compiled.processes.empty()) row.compiled = compiled.best_ms() / ms;
  fmt::print("{:<9} {:>5} {:>8.1f} {:>10} {:>6} {:>10} {:>6} {:>8.0f} {:>6.0f} % {:>11} {:>11} {:>6}\n", c.name,
             c.batch, ms, eager.text(), ratio_text(row.eager), compiled.text(), ratio_text(row.compiled),
             ours.product_flops() / ms / 1e6, share * 100, format_bytes(ours.arena_bytes()), their_bytes,
             ratio_text(row.memory));
  std::fflush(stdout);
  if (options.profile) profile(ours.program(), options.threads, options.rounds);
  return row;
}

// Of the rows that have the figure; 0 when none has.
double geometric_mean(const std::vector<Row>& rows, double Row::*figure) {
  double sum = 0;
  int count = 0;
  for (const Row& row : rows) {
    if (row.*figure <= 0) continue;
    sum += std::log(row.*figure);
    ++count;
  }
  return count == 0 ? 0 : std::exp(sum / count);
}

// Date, machine and versions, so that a table can be told from another.
void print_head(const Options& options, const Ceiling& ceiling) {
  fmt::print("{}, {}, {}, {} threads, {} time\n", today(), cpu_model(), isa_text(), options.threads,
             wall_clock() ? "wall" : "processor");
  fmt::print("ours with {}", dnnl_version());
  if (!options.alone) {
    fmt::print("; {}", Torch(kCases[0].name, {"eager", "contiguous"}).versions());
  }
  fmt::print("\nmatmul {:.0f} GFLOP/s, convolution {:.0f} GFLOP/s, copy {:.1f} GB/s, op {:.3f} us\n\n",
             ceiling.matmul / 1e9, ceiling.conv / 1e9, ceiling.copy / 1e9, ceiling.overhead_us);
  fmt::print("{:<9} {:>5} {:>8} {:>10} {:>6} {:>10} {:>6} {:>8} {:>8} {:>11} {:>11} {:>6}\n",
             fmt::format("{} step", name(options.precision)), "batch", "ours ms", "eager ms", "speed", "compile ms",
             "speed", "GFLOP/s", "ceiling", "our bytes", "PyTorch's", "ratio");
}

Options parse(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--alone") {
      options.alone = true;
    } else if (word == "--eager") {
      options.eager_only = true;
    } else if (word == "--profile") {
      options.profile = true;
    } else if (word == "--cpu") {
      options.threads = 1;
      g_clock = CLOCK_PROCESS_CPUTIME_ID;
    } else if (word == "--rounds" && i + 1 < count) {
      options.rounds = std::stoi(words[++i]);
    } else if (word == "--precision" && i + 1 < count) {
      options.precision = parse_dtype(words[++i]);
    } else if (word == "--compile-limit" && i + 1 < count) {
      options.compile_limit_s = std::stoi(words[++i]);
    } else if (word == "--threads" && i + 1 < count) {
      options.threads = std::stoi(words[++i]);
    } else {
      options.cases.push_back(word);
    }
  }
  return options;
}

}  // namespace

int main(int count, char** words) {
  const Options options = parse(count, words);
  const Ceiling ceiling = measure_ceiling(options.threads, options.precision);
  print_head(options, ceiling);
  std::vector<Row> rows;
  for (const Case& c : kCases) {
    const auto& asked = options.cases;
    if (!asked.empty() && std::find(asked.begin(), asked.end(), c.name) == asked.end()) continue;
    rows.push_back(compare(c, options, ceiling));
  }
  if (!options.alone) {
    const auto mean = [&](double Row::*figure) { return ratio_text(geometric_mean(rows, figure)); };
    fmt::print("geometric mean: speed {} against eager, {} against torch.compile; memory {}\n", mean(&Row::eager),
               mean(&Row::compiled), mean(&Row::memory));
  }
  return 0;
}
