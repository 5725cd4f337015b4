#include "plimsoll/explain/device_figures.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string_view::npos;

// All words below are lower case.
constexpr std::string_view kDevice[] = {
    "gpu",      "vram",        "cuda",        "rocm",        "metal",           "vulkan",  "device",
    "hbm",      "buffer size", "avail mem",   "avail_mem",   "kv cache",        "kv self", "v size",
    "peak mem", "mem_usage",   "max_ma",      "mib / ",      "mib |",           "used: ",  "totalmem",
    "maxinuse", "workingset",  "with length", "free memory", "requested memory"};
constexpr std::string_view kOthers[] = {"download",   ".whl",    "cpu",           "host mem",
                                        "system mem", "left on", "trying to free"};
// What stands before the size of a whole device.
constexpr std::string_view kTotals[] = {"vram: ",           "vram:",
                                        "total vram ",      "global memory: ",
                                        "total memory: ",   "total memory = ",
                                        "totalglobalmem: ", "total gpu memory: ",
                                        "total_memory=",    "total=\"",
                                        "memory total: ",   "total memory ",
                                        "mib / ",           "mib /"};
constexpr int64_t kSmallest = kGiB;  // of the devices that programs run out of
constexpr std::string_view kUnits[] = {"kib", "mib", "gib", "tib", "kb", "mb", "gb", "tb", "bytes"};
constexpr std::string_view kLetters = "kmgt";  // without a blank in front

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_part_of_word(std::string_view text, size_t at) {
  return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
}

bool begins_with_unit(std::string_view text) {
  const bool letter = !text.empty() && contains(kLetters, text.substr(0, 1)) && !is_part_of_word(text, 1);
  if (text.starts_with(" ")) text.remove_prefix(1);
  return letter || std::any_of(std::begin(kUnits), std::end(kUnits), [&](std::string_view unit) {
           return text.starts_with(unit) && !is_part_of_word(text, unit.size());
         });
}

// Bytes that are counted without a unit, beside a word that says so.
bool is_count_of_bytes(std::string_view low, std::string_view number) {
  constexpr size_t kLong = 8;
  const bool counts =
      contains(low, "size") || contains(low, "alloc") || contains(low, "length") || contains(low, "memory");
  return counts && number.size() >= kLong && number[0] != '0' && !contains(number, ".");
}

// "5.31g", "6267 mb", "8589934592 bytes", "size 3221291008"; no number inside a word, nor one in a card's name
// ("a100-80gb").
bool has_size(std::string_view low) {
  for (size_t at = 0; at < low.size();) {
    const bool begins = is_digit(low[at]) && (at == 0 || (!is_part_of_word(low, at - 1) && low[at - 1] != '-'));
    if (!begins) {
      ++at;
      continue;
    }
    const size_t end = std::min(low.find_first_not_of("0123456789.,", at), low.size());
    if (begins_with_unit(low.substr(end)) || is_count_of_bytes(low, low.substr(at, end - at))) return true;
    at = end;
  }
  const size_t unit = low.find("ib): ");  // "total gpu memory (gib): 140.06"
  return unit != npos && unit + 5 < low.size() && is_digit(low[unit + 5]);
}

// "3.1 GB used": no total.
bool is_a_part(std::string_view rest) {
  rest = rest.substr(0, 24);
  return contains(rest, " used") || contains(rest, " free") || contains(rest, " in use") || contains(rest, " alloc");
}

// The next line of `text`, which it takes off, as it would stand in a log without colours.
std::string take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string line = strip_decoration(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::optional<int64_t> total_in(std::string_view line) {
  const std::string low = lower(line.substr(0, 2000));
  std::optional<int64_t> largest;
  for (const std::string_view front : kTotals) {
    for (size_t at = low.find(front); at != npos; at = low.find(front, at + 1)) {
      const std::string_view rest = std::string_view(low).substr(at + front.size());
      const auto bytes = leading_size(rest, Units::binary);
      if (bytes && *bytes >= kSmallest && !is_a_part(rest)) largest = std::max(largest.value_or(0), *bytes);
    }
  }
  return largest;
}

}  // namespace

bool has_bytes(std::string_view text) { return has_size(lower(text)); }

bool tells_device_bytes(std::string_view line) {
  const std::string low = lower(line.substr(0, 2000));
  const auto is_there = [&](std::string_view word) { return contains(low, word); };
  return std::any_of(std::begin(kDevice), std::end(kDevice), is_there) &&
         std::none_of(std::begin(kOthers), std::end(kOthers), is_there) && has_size(low);
}

std::optional<int64_t> device_total(std::string_view line) {
  return tells_device_bytes(line) ? total_in(line) : std::nullopt;
}

DeviceFigures device_figures_in(std::string_view text) {
  DeviceFigures figures;
  while (!text.empty()) {
    const std::string line = take_line(text);
    if (!tells_device_bytes(line)) continue;
    figures.told = true;
    figures.total_bytes = std::max(figures.total_bytes, total_in(line));
  }
  return figures;
}

}  // namespace plimsoll::explain
