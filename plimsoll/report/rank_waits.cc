#include "plimsoll/report/rank_waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plimsoll/base/duration.h"

namespace plimsoll::report {
namespace {

constexpr size_t kShownCollectives = 12;
constexpr size_t kShownRanks = 4;  // in 80 columns
constexpr size_t kCollectiveColumns = 34;

double longest_wait(const train::CollectiveWait& collective) {
  double longest = 0;
  for (size_t rank = 0; rank < collective.seconds.size(); ++rank) {
    longest = std::max(longest, collective.waited(rank));
  }
  return longest;
}

}  // namespace

std::string waits_line(const train::RankWaits& waits) {
  if (waits.ranks() == 0) return "";
  const auto slow = waits.slow_rank();
  if (!slow) {
    double sum = 0;
    for (size_t rank = 0; rank < waits.ranks(); ++rank) sum += waits.waited(rank);
    return fmt::format("  waited     {} of {} for other ranks, on average; none is slow\n",
                       format_seconds(sum / static_cast<double>(waits.ranks())), format_seconds(waits.run_seconds));
  }
  const double others = waits.waited_by_others(static_cast<size_t>(*slow));
  return fmt::format("  waited     {} of {}: rank {} is slow, and the others wait {:.0f} % of their time for it\n",
                     format_seconds(others), format_seconds(waits.run_seconds), *slow,
                     100 * others / waits.run_seconds);
}

std::string waits_table(const train::RankWaits& waits) {
  if (waits.ranks() == 0) return "";
  const size_t ranks = std::min(kShownRanks, waits.ranks());
  std::vector<train::CollectiveWait> sorted = waits.collectives;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return longest_wait(a) > longest_wait(b); });
  const auto line = [&](const std::string& name, const auto& cell) {
    std::string text = fmt::format("  {:<{}}", name.substr(0, kCollectiveColumns), kCollectiveColumns);
    for (size_t rank = 0; rank < ranks; ++rank) text += fmt::format(" {:>10}", cell(rank));
    return text + "\n";
  };
  std::string text = "\n" + line("waited for other ranks in", [](size_t rank) { return fmt::format("rank {}", rank); });
  for (size_t i = 0; i < std::min(kShownCollectives, sorted.size()); ++i) {
    text += line(sorted[i].name, [&](size_t rank) { return format_seconds(sorted[i].waited(rank)); });
  }
  return text + line("all collectives", [&](size_t rank) { return format_seconds(waits.waited(rank)); });
}

nlohmann::ordered_json waits_json(const train::RankWaits& waits) {
  nlohmann::ordered_json json = {{"run_s", waits.run_seconds}, {"slow_rank", nullptr}};
  if (const auto slow = waits.slow_rank()) json["slow_rank"] = *slow;
  for (size_t rank = 0; rank < waits.ranks(); ++rank) json["waited_s"].push_back(waits.waited(rank));
  for (const train::CollectiveWait& collective : waits.collectives) {
    json["collectives"].push_back({{"name", collective.name}, {"seconds", collective.seconds}});
  }
  return json;
}

}  // namespace plimsoll::report
