#include "plimsoll/train/rank_estimate.h"

#include <fmt/format.h>

#include <numeric>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/duration.h"
#include "plimsoll/base/error.h"
#include "plimsoll/device/communicator.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/program/ops/collective.h"

namespace plimsoll::train {
program::Sharding parse_sharding(const std::string& text) {
  const auto sharding = program::try_parse_sharding(text);
  if (sharding) return *sharding;
  throw ArgumentError(
      fmt::format("--shard is {}, expected none, optimizer, gradients, parameters or auto", quote(text)));
}

void set_bucket(StepRequest& request, const std::string& bucket) {
  request.step.train.bucket_bytes = parse_bytes(bucket);
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
    if (!program::is_of_link(*step.ops[i].def)) estimate.compute_s += seconds[i];
  }
  estimate.communication_s = communication_s(step, link);
  for (const double wait : waits_of(step, seconds, link)) estimate.waited_s += wait;
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
  for (size_t i = 0; i < step.programs.size(); ++i) {
    const program::Program& program = step.programs[i].lowered.program;
    const auto runs = static_cast<double>(step.runs(i));
    estimate.sent_bytes += step.runs(i) * program::sent_bytes(program);
    estimate.communication_s += runs * communication_s(program, link);
    for (size_t op = 0; op < program.ops.size(); ++op) {
      if (program::is_of_link(*program.ops[op].def)) estimate.waited_s += runs * step.programs[i].costs.seconds[op];
    }
  }
  estimate.compute_s = step.predicted_s - estimate.waited_s;
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
  text += fmt::format("  {:>5} {:>7}  {:>10}  {:>10}  {:>11}  {:>8}  {:>6} {:>8}\n", "ranks", "samples", "arena",
                      "sent", "compute", "wait", "hidden", "speed-up");
  for (const RankEstimate& one : estimates) {
    const RankEstimate& alone = estimates.front();
    text += fmt::format("  {:>5} {:>7}  {:>10}  {:>10}  {:>11}  {:>8}  {:>4.0f} % {:>6.2f} x\n", one.ranks, one.samples,
                        format_bytes(one.arena_bytes), format_bytes(one.sent_bytes), format_seconds(one.compute_s),
                        format_seconds(one.waited_s), 100 * one.hidden(), alone.step_s() / one.step_s());
  }
  return text;
}

}  // namespace plimsoll::train
