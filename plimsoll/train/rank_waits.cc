#include "plimsoll/train/rank_waits.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/device/gather.h"

namespace plimsoll::train {
namespace {

constexpr double kMuchWaiting = 0.05;  // of the time of the steps
constexpr double kLittleOfIt = 0.5;    // of what the others wait, that a slow rank may

std::string name_of(const program::Program& program, size_t op) {
  const program::Op& described = program.ops[op];
  return fmt::format("{} {}", described.def->name, program[program[described.outputs[0]].storage].name);
}

}  // namespace

double CollectiveWait::waited(size_t rank) const {
  return seconds[rank] - *std::min_element(seconds.begin(), seconds.end());
}

double RankWaits::waited(size_t rank) const {
  double sum = 0;
  for (const CollectiveWait& collective : collectives) sum += collective.waited(rank);
  return sum;
}

double RankWaits::waited_by_others(size_t rank) const {
  double sum = 0;
  for (size_t other = 0; other < ranks(); ++other) sum += other == rank ? 0 : waited(other);
  return sum / static_cast<double>(std::max<size_t>(1, ranks() - 1));
}

std::optional<int> RankWaits::slow_rank() const {
  if (ranks() < 2) return std::nullopt;
  size_t slow = 0;
  for (size_t rank = 1; rank < ranks(); ++rank) {
    if (waited(rank) < waited(slow)) slow = rank;
  }
  const double others = waited_by_others(slow);
  if (others < kMuchWaiting * run_seconds || waited(slow) > kLittleOfIt * others) return std::nullopt;
  return static_cast<int>(slow);
}

RankWaits gather_waits(const RankPart& part, run::Session& session, double run_seconds) {
  if (!part || part.ranks->on_streams() != nullptr) return {};
  RankWaits waits{.run_seconds = run_seconds};
  std::vector<double> own;
  for (size_t i = 0; i < session.executors(); ++i) {
    const run::Executor& executor = session.executor(i);
    // Ranks may have other sizes of micro-batches, and more or fewer: their programs have the same collectives, which
    // count together.
    const bool is_another_size = i > 0 && i + 1 < session.executors();
    size_t at = is_another_size ? 0 : own.size();
    for (const auto& [op, seconds] : executor.collective_seconds()) {
      if (!is_another_size) {
        waits.collectives.push_back({name_of(executor.program(), op), {}});
        own.push_back(0);
      }
      own.at(at++) += seconds;
    }
  }
  for (const std::vector<double>& of_rank : device::gather_values(*part.ranks, own)) {
    for (size_t i = 0; i < own.size(); ++i) waits.collectives[i].seconds.push_back(of_rank[i]);
  }
  return waits;
}

}  // namespace plimsoll::train
