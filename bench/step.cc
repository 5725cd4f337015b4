// Training steps beside PyTorch's on the same machine: the same models, batches, optimizer and threads, a step of ours
// and one of each of PyTorch's memory formats in turn, medians. Beside them what the machine can do at all, measured in
// the same run, and the share of it that a step reaches.
//
//   bench_step [CASE].. [--precision f32|bf16|f16] [--rounds N] [--threads N] [--cpu] [--alone] [--profile]
//
// In bf16 and f16 PyTorch runs under its autocast; both keep the weights in f32.
// --cpu counts processor time, all on one thread: for a machine that is not quiet. --alone leaves PyTorch out;
// --profile lists what each kind of op took. PyTorch is bench/step_torch.py.
#include "plimsoll/models/step.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <memory>
#include <optional>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/halves_copy.h"
#include "plimsoll/kernels/cut.h"
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
#include "plimsoll/train/trainer.h"

namespace {

using namespace plimsoll;
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

double now_ms() {
  timespec now{};
  clock_gettime(g_clock, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

double median(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return of[of.size() / 2];
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
        models::draw(inits[i], executor.data<float>(values[i]), 1, stream++);
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

// ---- PyTorch ----

struct Measured {
  double ms = 0;
  int64_t bytes = 0;
};

// A process that does a step for every line that it is sent.
class Torch {
 public:
  Torch(const std::string& name, int threads, const std::string& format, DType precision) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw std::runtime_error("no socket for PyTorch");
    child_ = fork();
    if (child_ == 0) {
      dup2(ends[1], 0);
      dup2(ends[1], 1);
      close(ends[0]);
      const std::string script = PLIMSOLL_SOURCE_DIR "/bench/step_torch.py";
      execl("/usr/bin/python3", "python3", script.c_str(), name.c_str(), std::to_string(threads).c_str(),
            format.c_str(), g_clock == CLOCK_MONOTONIC ? "wall" : "cpu", std::string(plimsoll::name(precision)).c_str(),
            nullptr);
      _exit(127);
    }
    close(ends[1]);
    to_ = fdopen(ends[0], "w");
    from_ = fdopen(fcntl(ends[0], F_DUPFD_CLOEXEC, 0), "r");
    char line[64] = {};
    if (std::fgets(line, sizeof line, from_) == nullptr || std::strcmp(line, "ready\n") != 0) {
      throw std::runtime_error("PyTorch did not start: is python3-torch installed?");
    }
  }
  ~Torch() {
    std::fclose(to_);
    std::fclose(from_);
    waitpid(child_, nullptr, 0);
  }
  Torch(const Torch&) = delete;
  Torch& operator=(const Torch&) = delete;

  Measured step() {
    std::fputs("step\n", to_);
    std::fflush(to_);
    char line[128] = {};
    Measured measured;
    if (std::fgets(line, sizeof line, from_) == nullptr ||
        std::sscanf(line, "%lf %ld", &measured.ms, &measured.bytes) != 2) {
      throw std::runtime_error("PyTorch failed in a step");
    }
    return measured;
  }

 private:
  pid_t child_;
  FILE* to_;
  FILE* from_;
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

// ---- where the time goes ----

// Numbers around zero; the first of all classes.
void fill(std::byte* at, const program::Type& type) {
  const bool half = kernels::is_half(type.dtype);
  if (type.dtype != DType::f32 && !half) return;
  uint32_t state = 1;
  for (int64_t i = 0; i < type.shape.elements().constant(); ++i) {
    state = state * 1664525U + 1013904223U;
    const float number = (static_cast<float>(state >> 8) / 8388608.0F - 1) / 16;
    if (half) {
      kernels::narrow(type.dtype, &number, at + 2 * i, 1, 1);
    } else {
      reinterpret_cast<float*>(at)[i] = number;
    }
  }
}

// Runs the ops of a step one by one, each with the clock around it; medians by kind of op.
void profile(const program::Program& program, int threads, int rounds) {
  const kernels::Lowered lowered = kernels::prepare(program, {.threads = threads});
  const plan::MemoryPlan memory_plan = plan::plan_memory(lowered);
  FilePages pages = FilePages::host(2 * kMiB);
  Arena arena(pages, memory_plan.placement.arena_bytes, machine_budget());
  const program::Program& given = lowered.program;
  for (const auto* list : {&given.inputs, &given.parameters}) {
    for (const Value value : *list) fill(arena.data() + memory_plan.offset_of(given, value), given[value].type);
  }
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
      tasks[i]();
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
  bool profile = false;
  DType precision = DType::f32;
};

struct Row {
  double speed = 0;   // PyTorch's time by ours
  double memory = 0;  // our bytes by PyTorch's
};

Row compare(const Case& c, const Options& options, const Ceiling& ceiling) {
  Ours ours(c, options.threads, options.precision);
  std::vector<std::unique_ptr<Torch>> peers;
  std::vector<std::string> formats = {"contiguous"};
  if (c.images) formats.emplace_back("channels_last");
  for (const std::string& format : formats) {
    if (!options.alone) peers.push_back(std::make_unique<Torch>(c.name, options.threads, format, options.precision));
  }
  std::vector<double> our_ms;
  std::vector<std::vector<double>> peer_ms(peers.size());
  std::vector<int64_t> peer_bytes(peers.size());
  for (int round = 0; round <= options.rounds; ++round) {  // the first is for warming up
    const double ms = ours.step_ms();
    if (round > 0) our_ms.push_back(ms);
    for (size_t i = 0; i < peers.size(); ++i) {
      const Measured measured = peers[i]->step();
      if (round > 0) peer_ms[i].push_back(measured.ms);
      peer_bytes[i] = measured.bytes;
    }
  }
  const double ms = median(our_ms);
  const double share = ours.product_flops() * 1e3 / ms / std::max(ceiling.matmul, ceiling.conv);
  Row row;
  std::string peer = "-";
  std::string their_bytes = "-";
  if (!peers.empty()) {
    size_t best = 0;
    for (size_t i = 1; i < peers.size(); ++i) {
      if (median(peer_ms[i]) < median(peer_ms[best])) best = i;
    }
    row = {median(peer_ms[best]) / ms, static_cast<double>(ours.arena_bytes()) / static_cast<double>(peer_bytes[best])};
    peer = fmt::format("{:.0f} {}", median(peer_ms[best]), best == 0 ? "" : "nhwc");
    their_bytes = format_bytes(peer_bytes[best]);
  }
  fmt::print("{:<9} {:>5} {:>9.1f} {:>11} {:>7.2f} {:>8.0f} {:>6.0f} % {:>11} {:>11} {:>6.2f}\n", c.name, c.batch, ms,
             peer, row.speed, ours.product_flops() / ms / 1e6, share * 100, format_bytes(ours.arena_bytes()),
             their_bytes, row.memory);
  std::fflush(stdout);
  if (options.profile) profile(ours.program(), options.threads, options.rounds);
  return row;
}

Options parse(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--alone") {
      options.alone = true;
    } else if (word == "--profile") {
      options.profile = true;
    } else if (word == "--cpu") {
      options.threads = 1;
      g_clock = CLOCK_PROCESS_CPUTIME_ID;
    } else if (word == "--rounds" && i + 1 < count) {
      options.rounds = std::stoi(words[++i]);
    } else if (word == "--precision" && i + 1 < count) {
      options.precision = parse_dtype(words[++i]);
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
  fmt::print(
      "{}, {} threads, {} time: matmul {:.0f} GFLOP/s, convolution {:.0f} GFLOP/s, copy {:.1f} GB/s, op {:.3f} us\n\n",
      cpu_model(), options.threads, g_clock == CLOCK_MONOTONIC ? "wall" : "processor", ceiling.matmul / 1e9,
      ceiling.conv / 1e9, ceiling.copy / 1e9, ceiling.overhead_us);
  fmt::print("{:<9} {:>5} {:>9} {:>11} {:>7} {:>8} {:>8} {:>11} {:>11} {:>6}\n",
             fmt::format("{} step", name(options.precision)), "batch", "ours ms", "PyTorch ms", "speed", "GFLOP/s",
             "ceiling", "our bytes", "PyTorch's", "ratio");
  std::vector<Row> rows;
  for (const Case& c : kCases) {
    const auto& asked = options.cases;
    if (!asked.empty() && std::find(asked.begin(), asked.end(), c.name) == asked.end()) continue;
    rows.push_back(compare(c, options, ceiling));
  }
  double speed = 0;
  double memory = 0;
  for (const Row& row : rows) {
    speed += std::log(row.speed) / static_cast<double>(rows.size());
    memory += std::log(row.memory) / static_cast<double>(rows.size());
  }
  if (!options.alone) fmt::print("geometric mean: speed {:.2f}, memory {:.2f}\n", std::exp(speed), std::exp(memory));
  return 0;
}
