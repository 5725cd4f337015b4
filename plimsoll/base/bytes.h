// Sizes in bytes and their text form. Sizes are int64_t and never negative. Text is written in binary units
// (`1.50 GiB`); both binary (`GiB`, `G`) and decimal (`GB`) units are read for what they say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll {

inline constexpr int64_t kKiB = int64_t{1} << 10;
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;
inline constexpr int64_t kTiB = int64_t{1} << 40;

// 1610612736 -> "1.50 GiB"; below 1 KiB "512 B".
std::string format_bytes(int64_t bytes);

// 40000000 -> "40,000,000": for figures that people compare digit by digit.
std::string format_count(int64_t count);

// Reads "1.50 GiB", "512M", "2GB", "1e9", "4096": a decimal number, then an optional unit in any case. K, M, G, T, P
// and KiB.. are powers of 1024; KB, MB.. are powers of 1000; B or nothing is bytes. Throws ArgumentError when the text
// is not a size, is negative, or does not fit in int64_t. Fractions of a byte round down.
int64_t parse_bytes(std::string_view text);

// The same without the exception, for readers that look for sizes in running text.
std::optional<int64_t> try_parse_bytes(std::string_view text);

// a * b and a + b for sizes; nothing when the result does not fit.
std::optional<int64_t> checked_multiply(int64_t a, int64_t b);
std::optional<int64_t> checked_add(int64_t a, int64_t b);

// The next multiple of `alignment`, a positive number (not only powers of two).
constexpr int64_t align_up(int64_t bytes, int64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }
constexpr int64_t align_down(int64_t bytes, int64_t alignment) { return bytes / alignment * alignment; }

}  // namespace plimsoll
