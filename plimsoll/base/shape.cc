#include "plimsoll/base/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <vector>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"

namespace plimsoll {
namespace {

[[noreturn]] void reject(std::string_view text, std::string_view why) {
  throw ArgumentError(fmt::format("{} is not a shape: {}; expected up to {} sizes like 384x192 or [384,192]",
                                  quote(text), why, Shape::kMaxRank));
}

// "[384, 192]" without its brackets. Both or neither must stand.
std::string_view strip_brackets(std::string_view text) {
  const bool opens = text.starts_with('[') || text.starts_with('(');
  const bool closes = text.ends_with(']') || text.ends_with(')');
  if (opens != closes || (opens && text.size() < 2)) reject(text, "a bracket stands alone");
  return opens ? text.substr(1, text.size() - 2) : text;
}

int64_t parse_dimension(std::string_view whole, std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) reject(whole, fmt::format("{} is too large", quote(text)));
  if (error != std::errc{} || end != text.data() + text.size()) {
    reject(whole, fmt::format("{} is not a whole number", quote(text)));
  }
  return value;
}

}  // namespace

Shape::Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims) {
  if (dims.size() > kMaxRank) {
    throw ArgumentError(fmt::format("a shape has at most {} dimensions, not {}", kMaxRank, dims.size()));
  }
  for (const int64_t dim : dims) {
    if (dim < 0) {
      throw ArgumentError(fmt::format("dimension {} of shape [{}] is negative: {}", rank_, fmt::join(dims, ","), dim));
    }
    dims_[static_cast<size_t>(rank_++)] = dim;
  }
}

int64_t Shape::elements() const {
  int64_t count = 1;
  for (const int64_t dim : dims()) {
    if (dim == 0) return 0;  // even beside dimensions whose product would overflow
  }
  for (const int64_t dim : dims()) {
    const auto product = checked_multiply(count, dim);
    if (!product) throw ArgumentError(fmt::format("shape {} has more than 2^63 elements", text()));
    count = *product;
  }
  return count;
}

std::string Shape::text() const { return fmt::format("[{}]", fmt::join(dims(), ",")); }

Shape parse_shape(std::string_view text) {
  const std::string_view inner = strip_brackets(text);
  std::vector<int64_t> dims;
  if (inner.empty() && !text.empty()) return {};
  for (size_t begin = 0; begin <= inner.size();) {
    const size_t end = std::min(inner.find_first_of("xX,", begin), inner.size());
    dims.push_back(parse_dimension(text, inner.substr(begin, end - begin)));
    begin = end + 1;
  }
  return Shape(dims);
}

}  // namespace plimsoll
