#include "plimsoll/report/plot.h"

#include <algorithm>

namespace plimsoll::report {
namespace {

constexpr int kEighths = 8;
constexpr const char* kBlocks[kEighths + 1] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

// For each column the largest height of its times.
std::vector<int64_t> column_heights(std::span<const int64_t> heights, int columns) {
  std::vector<int64_t> largest;
  const auto count = static_cast<int64_t>(heights.size());
  for (int64_t column = 0; column < columns; ++column) {
    const int64_t first = column * count / columns;
    const int64_t end = std::max(first + 1, (column + 1) * count / columns);
    largest.push_back(*std::max_element(heights.begin() + first, heights.begin() + end));
  }
  return largest;
}

}  // namespace

std::vector<std::string> plot(std::span<const int64_t> heights, int columns, int rows) {
  std::vector<std::string> lines(static_cast<size_t>(rows));
  if (heights.empty()) return lines;
  const std::vector<int64_t> shown = column_heights(heights, columns);
  const auto top = static_cast<double>(std::max<int64_t>(1, *std::max_element(shown.begin(), shown.end())));
  for (const int64_t height : shown) {
    const int filled = static_cast<int>(static_cast<double>(height) / top * rows * kEighths + 0.5);
    for (int row = 0; row < rows; ++row) {
      lines[static_cast<size_t>(rows - 1 - row)] += kBlocks[std::clamp(filled - row * kEighths, 0, kEighths)];
    }
  }
  return lines;
}

int column_of(size_t time, size_t times, int columns) {
  for (int column = columns - 1; column > 0; --column) {
    if (static_cast<size_t>(column) * times / static_cast<size_t>(columns) <= time) return column;
  }
  return 0;
}

}  // namespace plimsoll::report
