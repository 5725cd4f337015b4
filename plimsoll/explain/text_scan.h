// Small tools for finding numbers in messages that people and programs wrote.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll::explain {

bool contains(std::string_view text, std::string_view part);
bool has(std::string_view text, std::span<const std::string_view> words);  // any of them

std::string lower(std::string_view text);  // of ASCII

// What follows `marker`; nothing when it is not there.
std::optional<std::string_view> after(std::string_view text, std::string_view marker);

// What stands between `open` and the next `close`; up to the end when `close` is missing.
std::optional<std::string_view> between(std::string_view text, std::string_view open, std::string_view close);

std::string_view trim(std::string_view text);

// What "GB" means: 10^9 bytes, or 2^30 for those who divide by 1024 and still write GB (MPS, Paddle, Ray, Spark).
enum class Units : uint8_t { as_written, binary };

// The size at the beginning of `text` ("1900,00 MiB", "924. GiB", "13.76G", "8,589,934,592 bytes"); blanks before it
// are skipped. A comma is a decimal one unless three digits follow it. Nothing when there is none, or when it is more
// than any memory has, 2^56 bytes (some drivers print 2^64 for "not known").
std::optional<int64_t> leading_size(std::string_view text, Units units = Units::as_written);

// Whether a figure stands at the beginning of `text` that is more than can be a size.
bool is_beyond_any_memory(std::string_view text);

// The end of `text` from the number on that its last words are ("… has 5.41 GiB" -> "5.41 GiB").
std::string_view size_text_before(std::string_view text);

// The size right after `marker`, or right before it.
std::optional<int64_t> size_after(std::string_view text, std::string_view marker, Units units = Units::as_written);
std::optional<int64_t> size_before(std::string_view text, std::string_view marker);

// The whole number at the beginning of `text`, blanks skipped.
std::optional<int64_t> leading_integer(std::string_view text);
std::optional<int64_t> integer_after(std::string_view text, std::string_view marker);

// Without terminal colours and cursor moves, raw or as JSON and Python write them (\u001b[31m, \x1b[0m), without the
// box characters that pretty tracebacks draw, and without what is no text at all.
std::string strip_decoration(std::string_view line);

// Takes a launcher's prefix off `line` and returns it: "[rank3]:", "(pid=12, ip=…)", "[1,2]<stderr>:", "3: ".
std::string take_rank(std::string_view& line);

// The user's own innermost frame of the Python traceback that ends `text`: "train.py:35 in step". Empty when there is
// no traceback.
std::string user_frame_of_traceback(std::string_view text);

// Whether a source file belongs to Python, a framework or an installed package rather than to the user.
bool is_library_file(std::string_view file);

// A source of PyTorch's own, installed or in its tree; a folder of the user's may be called torch, too.
bool is_torch_file(std::string_view file);

}  // namespace plimsoll::explain
