// What a training step over several ranks takes, on paper: the bytes of each rank are those of the program that it
// would run, and the time of its collectives is by a model of two numbers of the link, latency and rate
// (docs/ranks.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/train/model_forms.h"

namespace plimsoll::train {

inline constexpr int kMostRanksOnPaper = 1024;

struct Link {
  std::string name;
  double latency_s = 0;    // of one message
  double bytes_per_s = 0;  // that a rank sends while it receives as many
};

// "10GbE", "25GbE", "100GbE", "IB" (HDR), "NVLink", or a rate with the latency of Ethernet: "1.2GB/s", "5Gbit/s".
// ArgumentError for others.
Link parse_link(std::string_view text);

// What is asked of ranks on paper, in words.
struct RankOptions {
  int ranks = 1;
  std::string shard = "none";
  std::string link = "10GbE";
};
// ArgumentError for a word that is none.
program::Sharding parse_sharding(const std::string& text);

// Of the collectives of one run of a program, one after the other: sums by halving and doubling, 2 log2(n) messages and
// 2 (n - 1) / n of the bytes; scatters and gathers half of that.
double communication_s(const program::Program& program, const Link& link);

struct RankEstimate {
  int ranks = 1;
  int64_t samples = 0;      // of the rank that has the most
  int64_t arena_bytes = 0;  // of that rank, the whole batch at once and nothing computed again
  int64_t state_bytes = 0;  // of the optimizer
  int64_t sent_bytes = 0;   // of each rank
  double compute_s = 0;
  double communication_s = 0;

  double step_s() const { return compute_s + communication_s; }
};

// ArgumentError for more ranks than samples, or than kMostRanksOnPaper.
StepRequest request_of_ranks(StepRequest request, int ranks, program::Sharding sharding);
// `request` is of the whole batch.
RankEstimate estimate_ranks(const StepRequest& request, int ranks, program::Sharding sharding, const Link& link);

// For each number of ranks up to the one that is asked for.
std::vector<RankEstimate> estimate_ranks(const StepRequest& request, const RankOptions& options);
// Of a step as it is planned, its micro-batches counted; `request` is of one rank.
RankEstimate estimate_rank(const StepRequest& request, const plan::StepPlan& step, const Link& link);

// 1, 2, 4, .. and `ranks` itself, as long as each has a sample.
std::vector<int> rank_counts(int ranks);

// A table of them, with the speed-up over one rank.
std::string ranks_text(const std::vector<RankEstimate>& estimates, const Link& link, program::Sharding sharding);

}  // namespace plimsoll::train
