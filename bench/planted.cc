// Packing under pressure: rectangles of time and bytes cut into buffers, so that they fill it without a hole and its
// height is the optimum. Everything lives at capacity all the time, which is as hard as packing gets.
//
//   bench_planted [COUNTS [SEEDS [SECONDS [KIND [FIRST]]]]]     for example: bench_planted 500,2000 20 4 guillotine 101
//
// The kinds are cuts of several sorts (see kPlantedKinds); where pieces were taken away or made smaller, the height is
// only known to suffice. The seeds are FIRST, 101 unless said, and those that follow. Each row has, over the seeds: how
// many are optimal, the mean and the largest gap, and processor time. Every packing is checked by the oracle.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sstream>
#include <string>
#include <vector>

#include "bench/planted_instances.h"
#include "plimsoll/pack/oracle.h"
#include "plimsoll/pack/pack.h"

namespace plimsoll::pack {
namespace {

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Row {
  int optimal = 0;
  int wrong = 0;
  double sum = 0;
  double worst = 0;
  std::vector<double> seconds = {};

  // `optimum` is the height that the buffers were cut from.
  void add(const std::vector<Buffer>& buffers, int64_t optimum, double limit_s) {
    const double start = cpu_seconds();
    const Result result = pack(buffers, {.time_limit_s = limit_s});
    seconds.push_back(cpu_seconds() - start);
    const double gap = 100.0 * static_cast<double>(result->peak_bytes - optimum) / static_cast<double>(optimum);
    optimal += result->peak_bytes <= optimum ? 1 : 0;
    wrong += find_fault(buffers, result->offsets, result->peak_bytes) ? 1 : 0;
    sum += gap;
    worst = std::max(worst, gap);
  }

  void print(std::string_view kind, int64_t count) {
    std::sort(seconds.begin(), seconds.end());
    const size_t n = seconds.size();
    fmt::print("{:<12} {:>6} {:>4} of {:<3} {:>8.2f} {:>8.2f} {:>10.3f} {:>8.3f} {:>7}\n", kind, count, optimal, n,
               sum / static_cast<double>(n), worst, seconds[n / 2], seconds.back(), wrong == 0 ? "right" : "WRONG");
  }
};

std::vector<int64_t> counts_in(const std::string& text) {
  std::vector<int64_t> counts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) counts.push_back(std::atoll(part.c_str()));
  return counts;
}

void measure(const std::vector<int64_t>& counts, int seeds, double limit_s, std::string_view only, uint64_t first) {
  fmt::print("{:<12} {:>6} {:>11} {:>8} {:>8} {:>10} {:>8} {:>7}\n", "cut", "count", "optimal", "mean %", "worst %",
             "CPU median", "longest", "oracle");
  for (const PlantedKind& kind : kPlantedKinds) {
    if (!only.empty() && only != kind.name) continue;
    for (const int64_t count : counts) {
      Row row;
      for (int i = 0; i < seeds; ++i) {
        row.add(planted(kind, count, first + static_cast<uint64_t>(i)), kind.bytes, limit_s);
      }
      row.print(kind.name, count);
    }
  }
}

}  // namespace
}  // namespace plimsoll::pack

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const auto argument = [&](int i, const char* otherwise) { return std::string(i < argc ? argv[i] : otherwise); };
  plimsoll::pack::measure(plimsoll::pack::counts_in(argument(1, "200,500,2000")), std::atoi(argument(2, "5").c_str()),
                          std::atof(argument(3, "4").c_str()), argument(4, ""),
                          std::strtoull(argument(5, "101").c_str(), nullptr, 10));
}
