// What a training step over several ranks takes, on paper: the bytes of each rank are those of the program that it
// would run, and the time of its collectives is by a model of two numbers of the link, latency and rate
// (docs/ranks.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/train/link.h"
#include "plimsoll/train/model_forms.h"

namespace plimsoll::train {

inline constexpr int kMostRanksOnPaper = 1024;
inline constexpr const char* kUsualBucketText = "1MiB";

// What is asked of ranks on paper, in words.
struct RankOptions {
  int ranks = 1;
  std::string shard = "none";
  std::string link = "10GbE";
  std::string bucket = kUsualBucketText;
};
// ArgumentError for a word that is none.
program::Sharding parse_sharding(const std::string& text);

// Of gradients that are summed together (program/gradient_sums.h): "4MiB". ArgumentError for what is no size.
void set_bucket(StepRequest& request, const std::string& bucket);

struct RankEstimate {
  int ranks = 1;
  int64_t samples = 0;      // of the rank that has the most
  int64_t arena_bytes = 0;  // of that rank, the whole batch at once and nothing computed again
  int64_t state_bytes = 0;  // of the optimizer
  int64_t sent_bytes = 0;   // of each rank
  double compute_s = 0;
  double communication_s = 0;  // that the link is in use
  double waited_s = 0;         // of that, while nothing is computed

  double step_s() const { return compute_s + waited_s; }
  // The share of the communication that goes on beside computing.
  double hidden() const { return communication_s > 0 ? 1 - waited_s / communication_s : 1; }
};

// ArgumentError for more ranks than samples, or than kMostRanksOnPaper.
StepRequest request_of_ranks(StepRequest request, int ranks, program::Sharding sharding);
// `request` is of the whole batch.
RankEstimate estimate_ranks(const StepRequest& request, int ranks, program::Sharding sharding, const Link& link);

// For each number of ranks up to the one that is asked for.
std::vector<RankEstimate> estimate_ranks(const StepRequest& request, const RankOptions& options);
// Of a step as it is planned for this link (StepRequest::link), its micro-batches counted; `request` is of one rank.
RankEstimate estimate_rank(const StepRequest& request, const plan::StepPlan& step, const Link& link);

// 1, 2, 4, .. and `ranks` itself, as long as each has a sample.
std::vector<int> rank_counts(int ranks);

// A table of them, with the speed-up over one rank.
std::string ranks_text(const std::vector<RankEstimate>& estimates, const Link& link, program::Sharding sharding);

}  // namespace plimsoll::train
