#include "plimsoll/base/bytes.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "plimsoll/base/error.h"

namespace plimsoll {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

// Bytes in one `unit` ("", "B", "k", "KiB", "GB", ...), or nothing when it is no unit.
std::optional<long double> unit_bytes(std::string_view unit) {
  constexpr std::string_view kPrefixes = "KMGTPE";
  if (unit.empty() || unit == "B" || unit == "b" || unit == "bytes") return 1.0L;
  const size_t power = kPrefixes.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0]))));
  if (power == std::string_view::npos) return std::nullopt;
  std::string rest;
  for (const char c : unit.substr(1)) rest += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto exponent = static_cast<int>(power) + 1;
  if (rest.empty() || rest == "i" || rest == "ib") return std::ldexp(1.0L, 10 * exponent);
  if (rest == "b") return std::pow(10.0L, 3 * exponent);
  return std::nullopt;
}

}  // namespace

std::string format_bytes(int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < kKiB) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1023.995 && unit + 1 < kUnits.size()) {  // 1023.995 would print as 1024.00
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string format_count(int64_t count) {
  std::string digits = std::to_string(count);
  const size_t first = digits[0] == '-' ? 1 : 0;
  for (size_t end = digits.size(); end > first + 3;) {
    end -= 3;
    digits.insert(end, ",");
  }
  return digits;
}

std::optional<int64_t> try_parse_bytes(std::string_view text) {
  text = trim(text);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number) || std::signbit(number)) return std::nullopt;
  const auto unit = unit_bytes(trim({end, static_cast<size_t>(text.data() + text.size() - end)}));
  if (!unit) return std::nullopt;
  int64_t whole = 0;  // plain integers stay exact above 2^53
  const auto [whole_end, whole_error] = std::from_chars(text.data(), end, whole);
  if (whole_error == std::errc{} && whole_end == end) return checked_multiply(whole, static_cast<int64_t>(*unit));
  const long double bytes = static_cast<long double>(number) * *unit;
  if (bytes >= 0x1p63L) return std::nullopt;
  return static_cast<int64_t>(bytes);
}

int64_t parse_bytes(std::string_view text) {
  if (const auto bytes = try_parse_bytes(text)) return *bytes;
  throw ArgumentError(
      fmt::format("'{}' is not a size: expected a number of bytes below 8 EiB, like 1.5GiB, 512M, 2GB or 1e9", text));
}

std::optional<int64_t> checked_multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

}  // namespace plimsoll
