#include "plimsoll/explain/text_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "plimsoll/base/bytes.h"

namespace plimsoll::explain {
namespace {

constexpr int64_t kLargestSize = int64_t{1} << 56;  // 64 PiB: sums of a few such still fit

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_number_part(char c) { return is_digit(c) || c == '.' || c == ','; }

std::string_view skip_blanks(std::string_view text) {
  while (!text.empty() && (text[0] == ' ' || text[0] == '\t')) text.remove_prefix(1);
  return text;
}

// Whether every comma has three digits after it, up to the next comma or the end: "8,589,934,592".
bool groups_thousands(std::string_view number) {
  for (size_t at = number.find(','); at != std::string_view::npos; at = number.find(',', at + 1)) {
    const std::string_view group = number.substr(at + 1, number.find(',', at + 1) - at - 1);
    if (group.size() != 3) return false;
  }
  return true;
}

// "1900,00" -> "1900.00"; "1,900.00" -> "1900.00"; "1,900" -> "1900".
std::string with_decimal_point(std::string_view number) {
  std::string result(number);
  if (number.find('.') == std::string_view::npos && !groups_thousands(number)) {
    std::replace(result.begin(), result.end(), ',', '.');
  } else {
    std::erase(result, ',');
  }
  return result;
}

// The letters that follow a number, if they are a unit.
std::string unit_of(std::string_view rest) {
  size_t letters = 0;
  while (letters < rest.size() && is_letter(rest[letters])) ++letters;
  std::string unit(rest.substr(0, letters));
  return try_parse_bytes("1" + unit) ? unit : "";
}

// "GB" -> "GiB".
std::string as_binary(std::string unit) {
  if (unit.size() == 2 && (unit[1] == 'B' || unit[1] == 'b')) unit.insert(1, 1, 'i');
  return unit;
}

// Length of an escape sequence that begins `text`, however the escape byte is written; 0 when none does.
size_t escape_length(std::string_view text) {
  constexpr std::array<std::string_view, 5> kEscapes = {"\x1b", "\\u001b", "\\x1b", "\\033", "\\u001B"};
  for (const std::string_view escape : kEscapes) {
    if (!text.starts_with(escape)) continue;
    size_t end = escape.size();
    if (end >= text.size() || text[end] != '[') return escape.size() == 1 ? 1 : 0;
    for (++end; end < text.size() && !is_letter(text[end]);) ++end;
    return std::min(end + 1, text.size());
  }
  return 0;
}

// Box drawing (U+2500..U+257F) and the no-break space, as UTF-8.
size_t ornament_length(std::string_view text) {
  if (text.size() >= 3 && text[0] == '\xe2' && (text[1] == '\x94' || text[1] == '\x95')) return 3;
  return text.size() >= 2 && text[0] == '\xc2' && text[1] == '\xa0' ? 2 : 0;
}

struct Written {
  std::string_view as;
  std::string_view means;
};

// What pages and keyboards write for plain signs: entities, tags, typographic quotes, signs of double width.
constexpr Written kWritten[] = {
    {"&quot;", "\""},       {"&lt;", "<"},         {"&gt;", ">"},         {"&#39;", "'"},
    {"&#x27;", "'"},        {"&apos;", "'"},       {"&#34;", "\""},       {"&nbsp;", " "},
    {"&amp;", "&"},         {"<br>", " "},         {"<br/>", " "},        {"<br />", " "},
    {"<code>", ""},         {"</code>", ""},       {"<pre>", ""},         {"</pre>", ""},
    {"</span>", ""},        {"<strong>", ""},      {"</strong>", ""},     {"<p>", ""},
    {"</p>", ""},           {"\xe2\x80\x98", "'"}, {"\xe2\x80\x99", "'"}, {"\xe2\x80\x9c", "\""},
    {"\xe2\x80\x9d", "\""}, {"\xe2\x80\xaf", " "}, {"\xe2\x80\x89", " "}, {"\xef\xbc\x9a", ": "},
    {"\xef\xbc\x8c", ", "}, {"\xef\xbc\x88", "("}, {"\xef\xbc\x89", ")"}, {"\xef\xbc\x9b", ";"},
    {"\xe3\x80\x82", "."},
};

const Written* written_at(std::string_view text) {
  if (text[0] != '&' && text[0] != '<' && static_cast<unsigned char>(text[0]) < 0xe0) return nullptr;
  const auto found = std::find_if(std::begin(kWritten), std::end(kWritten),
                                  [&](const Written& written) { return text.starts_with(written.as); });
  return found == std::end(kWritten) ? nullptr : found;
}

std::string_view file_name(std::string_view path) {
  const size_t slash = path.find_last_of("/\\");
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool has(std::string_view text, std::span<const std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return contains(text, word); });
}

std::string lower(std::string_view text) {
  std::string low(text);
  std::transform(low.begin(), low.end(), low.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return low;
}

std::optional<std::string_view> after(std::string_view text, std::string_view marker) {
  const size_t at = text.find(marker);
  if (at == std::string_view::npos) return std::nullopt;
  return text.substr(at + marker.size());
}

std::optional<std::string_view> between(std::string_view text, std::string_view open, std::string_view close) {
  const auto rest = after(text, open);
  return rest ? std::optional(rest->substr(0, rest->find(close))) : std::nullopt;
}

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::optional<int64_t> leading_size(std::string_view text, Units units) {
  text = skip_blanks(text);
  size_t digits = 0;
  while (digits < text.size() && is_number_part(text[digits])) ++digits;
  std::string_view number = text.substr(0, digits);
  while (!number.empty() && !is_digit(number.back())) number.remove_suffix(1);  // "There are 6.43M free.", "20."
  if (number.empty() || !is_digit(number[0]) || number.size() > 32) return std::nullopt;
  std::string unit = unit_of(skip_blanks(text.substr(digits)));
  // "20. Then": a sentence ended; "924. GiB": NumPy leaves the digits away.
  if (number.size() != digits && !unit.ends_with("iB")) unit.clear();
  if (units == Units::binary) unit = as_binary(std::move(unit));
  const auto size = try_parse_bytes(with_decimal_point(number) + unit);
  return size && *size <= kLargestSize ? size : std::nullopt;
}

bool is_beyond_any_memory(std::string_view text) {
  text = skip_blanks(text);
  return !text.empty() && is_digit(text[0]) && !leading_size(text);
}

std::optional<int64_t> size_after(std::string_view text, std::string_view marker, Units units) {
  const auto rest = after(text, marker);
  return rest ? leading_size(*rest, units) : std::nullopt;
}

std::string_view size_text_before(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && text[begin - 1] == ' ') --begin;
  while (begin > 0 && is_letter(text[begin - 1])) --begin;
  while (begin > 0 && text[begin - 1] == ' ') --begin;
  while (begin > 0 && is_number_part(text[begin - 1])) --begin;
  return text.substr(begin);
}

std::optional<int64_t> size_before(std::string_view text, std::string_view marker) {
  const size_t end = text.find(marker);
  return end == std::string_view::npos ? std::nullopt : leading_size(size_text_before(text.substr(0, end)));
}

std::optional<int64_t> leading_integer(std::string_view text) {
  text = skip_blanks(text);
  int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc{} ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> integer_after(std::string_view text, std::string_view marker) {
  const auto rest = after(text, marker);
  return rest ? leading_integer(*rest) : std::nullopt;
}

std::string strip_decoration(std::string_view line) {
  std::string result;
  result.reserve(line.size());
  for (size_t i = 0; i < line.size();) {
    const std::string_view rest = line.substr(i);
    if (const size_t length = escape_length(rest) + ornament_length(rest)) {
      i += length;
      continue;
    }
    if (const Written* written = written_at(rest)) {
      result += written->means;
      i += written->as.size();
      continue;
    }
    const auto byte = static_cast<unsigned char>(line[i++]);
    if (byte >= 0x20 || byte == '\t') result += static_cast<char>(byte);
  }
  return result;
}

std::string take_rank(std::string_view& line) {
  const std::string_view text = skip_blanks(line);
  const auto take = [&](size_t label_begin, size_t label_end, size_t end) {
    std::string label(text.substr(label_begin, label_end - label_begin));
    line = skip_blanks(text.substr(std::min(end, text.size())));
    return label;
  };
  const bool bracket = text.starts_with("[rank") || text.starts_with("[default") ||
                       (text.size() > 2 && text[0] == '[' && is_digit(text[1]) && text.find(',') < text.find(']'));
  if (const size_t close = text.find(']'); bracket && close < 40) {
    const size_t colon = text.find(':', close);
    if (colon != std::string_view::npos && colon < close + 12) return take(1, close, colon + 1);
  }
  const size_t close = text.find(')');
  if (text.starts_with("(") && close < 100 && text.find("pid=") < close) return take(1, close, close + 1);
  constexpr std::string_view kOurs = "plimsoll: ";
  if (text.starts_with("plimsoll: rank ")) {
    const size_t colon = text.find(':', kOurs.size());
    if (colon < kOurs.size() + 12) return take(kOurs.size(), colon, colon + 1);
  }
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits > 0 && digits < 6 && text.substr(digits).starts_with(": ")) return take(0, digits, digits + 2);
  return {};
}

bool is_torch_file(std::string_view file) {
  constexpr std::string_view kFolders[] = {"-packages/torch/", "torch/nn/", "torch/optim/",       "torch/utils/",
                                           "torch/autograd/",  "torch/_",   "torch/distributed/", "torch/cuda/",
                                           "torch/amp/",       "torch/fx/", "torch/functional.py"};
  return std::any_of(std::begin(kFolders), std::end(kFolders),
                     [&](std::string_view folder) { return contains(file, folder); });
}

bool is_library_file(std::string_view file) {
  constexpr std::array<std::string_view, 14> kMarks = {
      "site-packages/", "dist-packages/",  "torch/csrc",    "/lib/python", "lib/python3",
      "<frozen",        "<__array_fun",    "<eval_wi",      "??",          "/aten/src/",
      "torch/_",        "site-packages\\", "\\lib\\python", "\\torch\\"};
  return file.empty() || is_torch_file(file) ||
         std::any_of(kMarks.begin(), kMarks.end(), [&](auto mark) { return contains(file, mark); });
}

std::string user_frame_of_traceback(std::string_view text) {
  std::string found;
  if (const size_t begin = text.rfind("Traceback (most recent call last)"); begin != std::string_view::npos) {
    text.remove_prefix(begin);
  }
  while (const auto rest = after(text, "File \"")) {
    text = *rest;
    const std::string_view file = text.substr(0, text.find('"'));
    const auto line = integer_after(text.substr(0, 400), "\", line ");
    if (!line || is_library_file(file)) continue;
    const auto function = between(text.substr(0, text.find('\n')), ", in ", "\r");
    found = fmt::format("{}:{}", file_name(file), *line);
    if (function) found += fmt::format(" in {}", trim(strip_decoration(*function)));
  }
  return found;
}

}  // namespace plimsoll::explain
