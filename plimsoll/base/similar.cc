#include "plimsoll/base/similar.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace plimsoll {
namespace {

// Letters to insert, drop, change or swap with their neighbour on the way from one word to the other.
size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::vector<size_t>> rows(from.size() + 1, std::vector<size_t>(to.size() + 1));
  for (size_t i = 0; i <= from.size(); ++i) rows[i][0] = i;
  for (size_t j = 0; j <= to.size(); ++j) rows[0][j] = j;
  for (size_t i = 1; i <= from.size(); ++i) {
    for (size_t j = 1; j <= to.size(); ++j) {
      const size_t change = rows[i - 1][j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      rows[i][j] = std::min({change, rows[i - 1][j] + 1, rows[i][j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows.back().back();
}

}  // namespace

bool is_similar(std::string_view asked, std::string_view name) {
  constexpr size_t kLongest = 100;
  if (asked.size() > kLongest) return false;
  const bool contains = asked.size() >= 3 && (name.find(asked) != name.npos || asked.find(name) != asked.npos);
  return contains || edit_distance(asked, name) <= std::max<size_t>(1, name.size() / 3);
}

std::string similar_hint(std::string_view asked, std::span<const std::string> names) {
  std::vector<std::string> similar;
  for (const std::string& name : names) {
    if (is_similar(asked, name)) similar.push_back(name);
  }
  return similar.empty() ? "" : fmt::format("did you mean {}? ", fmt::join(similar, ", "));
}

}  // namespace plimsoll
