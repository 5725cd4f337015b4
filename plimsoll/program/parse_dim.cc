#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "plimsoll/base/error.h"
#include "plimsoll/program/dim.h"

namespace plimsoll::program {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// expression := product {(+|-) product}; product := factor {(*|//) factor}; factor := [-] number | symbol | ( ... )
class DimParser {
 public:
  explicit DimParser(std::string_view text) : text_(text) {}

  Dim parse() {
    const Dim dim = expression();
    if (peek() != '\0') reject();
    return dim;
  }

 private:
  Dim expression() {
    if (++depth_ > 32) reject();
    Dim sum = product();
    while (peek() == '+' || peek() == '-') sum = text_[at_++] == '+' ? sum + product() : sum - product();
    --depth_;
    return sum;
  }

  Dim product() {
    Dim product = factor();
    for (char c = peek(); c == '*' || c == '/'; c = peek()) {
      ++at_;
      if (c == '/' && (at_ == text_.size() || text_[at_++] != '/')) reject();
      product = c == '*' ? product * factor() : floor_div(product, factor());
    }
    return product;
  }

  Dim factor() {
    const char c = peek();
    if (is_digit(c)) return number();
    if (is_letter(c)) return Dim::symbol(word());
    if (c == '-') return negated();
    if (c != '(') reject();
    ++at_;
    const Dim dim = expression();
    if (peek() != ')') reject();
    ++at_;
    return dim;
  }

  Dim negated() {
    if (++depth_ > 32) reject();
    ++at_;
    const Dim dim = Dim(-1) * factor();
    --depth_;
    return dim;
  }

  Dim number() {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc{} || value > INT64_MAX / 2) throw ArgumentError("a dimension does not fit in 62 bits");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  std::string_view word() {
    const size_t begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  [[noreturn]] void reject() const {
    throw ArgumentError(fmt::format("{} is not a dimension: stopped at {}; expected numbers and symbols with + - * //",
                                    quote(text_), quote(text_.substr(std::min(at_, text_.size())))));
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Dim parse_dim(std::string_view text) { return DimParser(text).parse(); }

}  // namespace plimsoll::program
