#include "plimsoll/program/attribute.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "plimsoll/base/error.h"

namespace plimsoll::program {
namespace {

constexpr std::array<std::string_view, 7> kKindNames = {"flag", "integer", "integers", "dim", "dims", "real", "word"};

[[noreturn]] void reject(std::string_view text, std::string_view expected) {
  throw ArgumentError(fmt::format("found {}, expected {}", quote(text), expected));
}

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

double parse_real(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) reject(text, "a number like 0.5 or 1e-5");
  return value;
}

Dims parse_dims(std::string_view text) {
  if (!text.starts_with('[') || !text.ends_with(']') || text.size() < 2) reject(text, "a list like [1,2]");
  Dims dims;
  std::string_view rest = text.substr(1, text.size() - 2);
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    dims.push_back(parse_dim(rest.substr(0, comma)));
    if (comma + 1 == rest.size()) reject(text, "a number after the last comma");
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return dims;
}

Attribute parse_kind(AttributeKind kind, std::string_view text) {
  switch (kind) {
    case AttributeKind::flag:
      if (text != "true" && text != "false") reject(text, "true or false");
      return text == "true";
    case AttributeKind::integer:
    case AttributeKind::dim:
      return parse_dim(text);
    case AttributeKind::integers:
    case AttributeKind::dims:
      return parse_dims(text);
    case AttributeKind::real:
      return parse_real(text);
    case AttributeKind::word:
      break;
  }
  if (!is_word(text)) reject(text, "a word of letters, digits and underscores");
  return text;
}

}  // namespace

std::string_view name(AttributeKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

AttributeKind Attribute::kind() const {
  constexpr std::array kKinds = {AttributeKind::flag, AttributeKind::dim, AttributeKind::real, AttributeKind::word,
                                 AttributeKind::dims};
  return kKinds[value_.index()];
}

bool Attribute::fits(AttributeKind wanted) const {
  if (wanted == AttributeKind::integer) return kind() == AttributeKind::dim && dim().is_constant();
  if (wanted == AttributeKind::integers) return kind() == AttributeKind::dims && dims().is_constant();
  if (wanted == AttributeKind::word) return kind() == wanted && is_word(word());
  return kind() == wanted;
}

bool Attribute::operator==(const Attribute& other) const {
  const auto* const number = std::get_if<double>(&value_);
  const auto* const others = std::get_if<double>(&other.value_);
  if (number != nullptr && others != nullptr && std::isnan(*number)) return std::isnan(*others);
  return value_ == other.value_;
}

Attribute Attribute::bind(const Bindings& bindings) const {
  if (kind() == AttributeKind::dim) return dim().bind(bindings);
  if (kind() == AttributeKind::dims) return dims().bind(bindings);
  return *this;
}

std::string Attribute::text() const {
  switch (kind()) {
    case AttributeKind::flag:
      return flag() ? "true" : "false";
    case AttributeKind::real:
      return fmt::format("{}", real());
    case AttributeKind::word:
      return word();
    case AttributeKind::dims:
      return dims().text();
    default:
      return dim().text();
  }
}

Attribute parse_attribute(AttributeKind kind, std::string_view text) {
  Attribute attribute = parse_kind(kind, text);
  if (!attribute.fits(kind)) reject(text, fmt::format("{} without symbols", name(kind)));
  return attribute;
}

}  // namespace plimsoll::program
