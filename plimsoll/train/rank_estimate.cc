#include "plimsoll/train/rank_estimate.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <numeric>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/duration.h"
#include "plimsoll/base/error.h"
#include "plimsoll/device/communicator.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/program/ops/collective.h"

namespace plimsoll::train {
namespace {

struct KnownLink {
  std::string_view name;
  double latency_s;
  double bytes_per_s;
};

constexpr double kEthernetLatency = 30e-6;
// Latencies of MPI between two machines; rates that large messages reach.
constexpr std::array<KnownLink, 5> kLinks = {{{"10GbE", kEthernetLatency, 1.1e9},
                                              {"25GbE", kEthernetLatency, 2.8e9},
                                              {"100GbE", 15e-6, 11e9},
                                              {"IB", 2e-6, 23e9},
                                              {"NVLink", 5e-6, 300e9}}};

double seconds_of(const program::Program& program, const program::Op& op, const Link& link) {
  const auto ranks = static_cast<uint64_t>(program::OwnedOpCall(program, op)->integer("ranks"));
  const double messages = std::bit_width(ranks - 1);  // log2, rounded up
  const auto bytes = static_cast<double>(program[op.inputs[0]].type.bytes().constant());
  const double sent = bytes * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  const double passes = op.def->name == "all_reduce" ? 2 : 1;
  return passes * (messages * link.latency_s + sent / link.bytes_per_s);
}

}  // namespace

Link parse_link(std::string_view text) {
  for (const KnownLink& known : kLinks) {
    if (text == known.name) return {std::string(text), known.latency_s, known.bytes_per_s};
  }
  const auto refuse = [&] {
    throw ArgumentError(fmt::format(
        "--link is {}, expected 10GbE, 25GbE, 100GbE, IB, NVLink, or a rate like 1.2GB/s or 5Gbit/s", quote(text)));
  };
  double rate = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (error != std::errc() || rate <= 0 || rate > 1e6) refuse();
  const double scale = unit == "GB/s" ? 1e9 : unit == "MB/s" ? 1e6 : unit == "Gbit/s" ? 1e9 / 8 : 0;
  if (scale == 0) refuse();
  return {std::string(text), kEthernetLatency, rate * scale};
}

program::Sharding parse_sharding(const std::string& text) {
  const auto sharding = program::try_parse_sharding(text);
  if (sharding) return *sharding;
  throw ArgumentError(fmt::format("--shard is {}, expected none, optimizer or gradients", quote(text)));
}

double communication_s(const program::Program& program, const Link& link) {
  double sum = 0;
  for (const program::Op& op : program.ops) {
    if (program::is_collective(*op.def)) sum += seconds_of(program, op, link);
  }
  return sum;
}

StepRequest request_of_ranks(StepRequest request, int ranks, program::Sharding sharding) {
  const int64_t batch = models::bindings(request.model, request.step.sizes).at("batch");
  if (ranks < 1 || ranks > kMostRanksOnPaper) {
    throw ArgumentError(fmt::format("--ranks is {}, expected 1 to {}", ranks, kMostRanksOnPaper));
  }
  if (ranks > batch) {
    throw ArgumentError(
        fmt::format("--ranks is {}, and a batch of {} has no sample for each: give --batch", ranks, batch));
  }
  if (ranks > 1 && !request.step.training) throw ArgumentError("--ranks is of training: leave --mode infer out");
  request.step.sizes["batch"] = device::samples_of(batch, ranks, 0).size();
  request.step.train.ranks = ranks;
  request.step.train.sharding = sharding;
  return request;
}

RankEstimate estimate_ranks(const StepRequest& request, int ranks, program::Sharding sharding, const Link& link) {
  const StepRequest of_rank = request_of_ranks(request, ranks, sharding);
  const kernels::Lowered lowered = kernels::prepare(models::build_step(of_rank.model, of_rank.step),
                                                    {.device = request.device, .threads = request.threads});
  const program::Program& step = lowered.program;
  RankEstimate estimate{.ranks = ranks, .samples = of_rank.step.sizes.at("batch")};
  estimate.arena_bytes = plan::plan_memory(lowered).placement.arena_bytes;
  for (const program::Value state : step.state) {
    if (step[state].category == Category::optimizer_state) estimate.state_bytes += step[state].type.bytes().constant();
  }
  estimate.sent_bytes = program::sent_bytes(step);
  const std::vector<double> seconds = KnownCosts().of(lowered).seconds;
  for (size_t i = 0; i < seconds.size(); ++i) {
    if (!program::is_collective(*step.ops[i].def)) estimate.compute_s += seconds[i];
  }
  estimate.communication_s = communication_s(step, link);
  return estimate;
}

std::vector<RankEstimate> estimate_ranks(const StepRequest& request, const RankOptions& options) {
  const Link link = parse_link(options.link);
  std::vector<RankEstimate> estimates;
  for (const int ranks : rank_counts(options.ranks)) {
    estimates.push_back(estimate_ranks(request, ranks, parse_sharding(options.shard), link));
  }
  return estimates;
}

RankEstimate estimate_rank(const StepRequest& request, const plan::StepPlan& step, const Link& link) {
  RankEstimate estimate{.ranks = request.step.train.ranks, .arena_bytes = step.arena_bytes};
  estimate.samples = std::accumulate(step.sizes.begin(), step.sizes.end(), int64_t{0});
  estimate.compute_s = step.predicted_s;
  for (size_t i = 0; i < step.programs.size(); ++i) {
    const program::Program& program = step.programs[i].lowered.program;
    estimate.sent_bytes += step.runs(i) * program::sent_bytes(program);
    estimate.communication_s += static_cast<double>(step.runs(i)) * communication_s(program, link);
  }
  return estimate;
}

std::vector<int> rank_counts(int ranks) {
  std::vector<int> counts;
  for (int count = 1; count < ranks; count *= 2) counts.push_back(count);
  counts.push_back(ranks);
  return counts;
}

std::string ranks_text(const std::vector<RankEstimate>& estimates, const Link& link, program::Sharding sharding) {
  std::string text =
      fmt::format("\n  ranks over {} ({:.0f} us a message, {}/s), sharded: {}\n", link.name, 1e6 * link.latency_s,
                  format_bytes(static_cast<int64_t>(link.bytes_per_s)), name(sharding));
  text += fmt::format("  {:>5}  {:>7}  {:>11}  {:>11}  {:>10}  {:>10}  {:>8}\n", "ranks", "samples", "arena", "sent",
                      "compute", "wait", "speed-up");
  for (const RankEstimate& one : estimates) {
    const RankEstimate& alone = estimates.front();
    text += fmt::format("  {:>5}  {:>7}  {:>11}  {:>11}  {:>10}  {:>10}  {:>6.2f} x\n", one.ranks, one.samples,
                        format_bytes(one.arena_bytes), format_bytes(one.sent_bytes), format_seconds(one.compute_s),
                        format_seconds(one.communication_s), alone.step_s() / one.step_s());
  }
  return text;
}

}  // namespace plimsoll::train
