// Small pictures for the terminal.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace plimsoll::report {

// Heights over time as blocks (U+2581 to U+2588), `rows` lines of `columns` characters without trailing blanks,
// the top of the picture the largest height, or `top` where that is more. Each column shows the largest height of its
// share of the times, so no peak is lost.
std::vector<std::string> plot(std::span<const int64_t> heights, int columns, int rows, int64_t top = 1);

// The first column of plot() in which a time is shown.
int column_of(size_t time, size_t times, int columns);

}  // namespace plimsoll::report
