#include "plimsoll/report/plot.h"

#include <algorithm>

namespace plimsoll::report {
namespace {

constexpr int kEighths = 8;
constexpr const char* kBlocks[kEighths + 1] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

struct Times {
  size_t first = 0;
  size_t end = 0;
};

// The times that a column shows: at least one, also where there are fewer times than columns.
Times times_of(int column, size_t times, int columns) {
  const size_t first = static_cast<size_t>(column) * times / static_cast<size_t>(columns);
  return {first, std::max(first + 1, static_cast<size_t>(column + 1) * times / static_cast<size_t>(columns))};
}

// For each column the largest height of its times.
std::vector<int64_t> column_heights(std::span<const int64_t> heights, int columns) {
  std::vector<int64_t> largest;
  for (int column = 0; column < columns; ++column) {
    const auto [first, end] = times_of(column, heights.size(), columns);
    const auto shown = heights.subspan(first, end - first);
    largest.push_back(*std::max_element(shown.begin(), shown.end()));
  }
  return largest;
}

}  // namespace

std::vector<std::string> plot(std::span<const int64_t> heights, int columns, int rows, int64_t top) {
  std::vector<std::string> lines(static_cast<size_t>(rows));
  if (heights.empty()) return lines;
  const std::vector<int64_t> shown = column_heights(heights, columns);
  const auto scale = static_cast<double>(std::max(top, *std::max_element(shown.begin(), shown.end())));
  for (const int64_t height : shown) {
    const int filled = static_cast<int>(static_cast<double>(height) / scale * rows * kEighths + 0.5);
    for (int row = 0; row < rows; ++row) {
      lines[static_cast<size_t>(rows - 1 - row)] += kBlocks[std::clamp(filled - row * kEighths, 0, kEighths)];
    }
  }
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  return lines;
}

int column_of(size_t time, size_t times, int columns) {
  int column = 0;
  while (column + 1 < columns && times_of(column, times, columns).end <= time) ++column;
  return column;
}

}  // namespace plimsoll::report
