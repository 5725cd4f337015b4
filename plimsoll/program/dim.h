// A Dim is one dimension of a tensor: a number, or an expression over named symbols (batch, sequence) that becomes a
// number when the program is bound to sizes. A Dim is eight bytes, copied and compared like an integer: expressions are
// kept in one canonical form (a sum of products; floor divisions stand as factors) in a table that lives as long as the
// process. So `(batch+1)*2 == 2*batch+2`. Symbols stand for whole numbers of at least zero. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace plimsoll::program {

// What the symbols stand for: {{"batch", 32}}.
using Bindings = std::map<std::string, int64_t, std::less<>>;

class Dim {
 public:
  constexpr Dim() = default;
  constexpr Dim(int64_t value) : value_(value) {}  // NOLINT: a number is a Dim wherever one is expected

  // A symbol: a letter, then letters, digits and underscores, at most 64. ArgumentError otherwise.
  static Dim symbol(std::string_view name);

  constexpr bool is_constant() const { return value_ > kLastExpression; }
  // ArgumentError that names the symbols when there are any.
  int64_t constant() const;

  std::string text() const;  // "32", "2*batch+1", "(sequence-1)//2+1"; parse_dim reads it back
  void collect_symbols(std::set<std::string>& into) const;

  // This with the symbols of `bindings` replaced; others stay. ArgumentError for a division by zero.
  Dim bind(const Bindings& bindings) const;

  // Equal for equal Dims, for hashing; means nothing else.
  constexpr int64_t key() const { return value_; }

  bool operator==(const Dim&) const = default;

 private:
  friend class DimTable;
  static constexpr int64_t kLastExpression = INT64_MIN / 2;  // values up to here are places in the table

  int64_t value_ = 0;
};

// ArgumentError when a number overflows or an expression grows past 64 terms.
Dim operator+(Dim a, Dim b);
Dim operator-(Dim a, Dim b);
Dim operator*(Dim a, Dim b);
// Rounds towards minus infinity. ArgumentError for a divisor of zero or less.
Dim floor_div(Dim a, Dim b);
Dim ceil_div(Dim a, Dim b);

// Reads "batch", "2*(h+1)//2 - 1": + - * // and parentheses over whole numbers and symbols. ArgumentError otherwise.
Dim parse_dim(std::string_view text);

}  // namespace plimsoll::program

template <>
struct std::hash<plimsoll::program::Dim> {
  size_t operator()(plimsoll::program::Dim dim) const noexcept { return std::hash<int64_t>{}(dim.key()); }
};
