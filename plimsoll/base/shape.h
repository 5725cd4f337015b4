// The shape of a tensor: up to eight dimensions, each zero or more. A default shape is a scalar: no dimensions, one
// element. Counts are checked for overflow when asked, so a Shape can hold dimensions whose product does not fit.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  // ArgumentError for a negative dimension or more than kMaxRank of them.
  Shape(std::initializer_list<int64_t> dims);
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }

  // Product of the dimensions; ArgumentError when it does not fit in int64_t.
  int64_t elements() const;

  std::string text() const;  // "[384,192]"; a scalar is "[]"

  bool operator==(const Shape&) const = default;

 private:
  std::array<int64_t, kMaxRank> dims_{};  // zero past rank_, so that == is member-wise
  int rank_ = 0;
};

// Reads "384x192", "384,192", "[384, 192]", "[]" (a scalar). ArgumentError otherwise.
Shape parse_shape(std::string_view text);

}  // namespace plimsoll
