#include "plimsoll/explain/line_dress.h"

#include <algorithm>
#include <cctype>

#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string_view::npos;
constexpr int kNested = 3;  // strings within strings that are undone

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_name_part(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

std::string_view skip_blanks(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t"), text.size()));
}

// A break of a line, as it is written in strings. "C:\new" has none: small letters follow in names of folders.
bool is_packed(std::string_view line) {
  for (size_t at = line.find("\\n"); at != npos; at = line.find("\\n", at + 2)) {
    if (at + 2 >= line.size() || (!is_lower(line[at + 2]) && line[at + 2] != '_')) return true;
  }
  return false;
}

std::string unescape(std::string_view line) {
  std::string text;
  text.reserve(line.size());
  for (size_t i = 0; i < line.size(); ++i) {
    const char next = i + 1 < line.size() ? line[i + 1] : '\0';
    const bool known =
        next == 'n' || next == 'r' || next == 't' || next == '"' || next == '\'' || next == '\\' || next == '/';
    if (line[i] != '\\' || !known) {
      text += line[i];
      continue;
    }
    ++i;
    if (next != 'r') text += next == 'n' ? '\n' : next == 't' ? '\t' : next;
  }
  return text;
}

void add_lines(std::string_view text, std::vector<std::string>& lines) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

bool take_digits(std::string_view& text, size_t least, size_t most) {
  size_t digits = 0;
  while (digits < text.size() && is_digit(text[digits])) ++digits;
  if (digits < least || digits > most) return false;
  text.remove_prefix(digits);
  return true;
}

bool take(std::string_view& text, std::string_view part) {
  if (!text.starts_with(part)) return false;
  text.remove_prefix(part.size());
  return true;
}

bool take_any(std::string_view& text, std::string_view characters) {
  if (text.empty() || !contains(characters, text.substr(0, 1))) return false;
  text.remove_prefix(1);
  return true;
}

// "00:00", "0000"
void take_zone(std::string_view& text) {
  take_digits(text, 2, 4);
  if (take(text, ":")) take_digits(text, 2, 2);
}

// "10:11:12", "10:11:12,123", "10:11:12.1234567Z", "10:11:12+00:00"
bool take_time(std::string_view& text) {
  std::string_view rest = text;
  if (!take_digits(rest, 2, 2) || !take(rest, ":") || !take_digits(rest, 2, 2) || !take(rest, ":") ||
      !take_digits(rest, 2, 2)) {
    return false;
  }
  if (take_any(rest, ".,") && !take_digits(rest, 1, 9)) return false;
  if (!take(rest, "Z") && take_any(rest, "+-")) take_zone(rest);
  text = rest;
  return true;
}

// "2025-02-03", "2025/02/03"
bool take_date(std::string_view& text) {
  std::string_view rest = text;
  const bool date = take_digits(rest, 4, 4) && take_any(rest, "-/") && take_digits(rest, 2, 2) &&
                    take_any(rest, "-/") && take_digits(rest, 2, 2);
  if (date) text = rest;
  return date;
}

// "2025-02-03T10:11:12.123Z ", also in brackets, and the separator of Python's loggers behind it.
bool take_stamp(std::string_view& line) {
  std::string_view rest = line;
  const bool bracket = take(rest, "[");
  if (!take_date(rest) || !take_any(rest, "T ") || !take_time(rest)) return false;
  if (bracket != take(rest, "]")) return false;
  const size_t size = rest.size();
  rest = skip_blanks(rest);
  if (rest.size() == size && !rest.empty()) return false;  // "2017-05-09 13:13:15.970884: I tensorflow/…"
  if (take(rest, "- ") || take(rest, "| ")) rest = skip_blanks(rest);
  constexpr std::string_view kStreams[] = {"stderr F ", "stdout F ", "stderr P ", "stdout P "};
  for (const std::string_view stream : kStreams) take(rest, stream);
  line = rest;
  return true;
}

bool take_month(std::string_view& text) {
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const size_t at = kMonths.find(text.substr(0, 3));
  if (text.size() < 4 || at == npos || at % 3 != 0 || text[3] != ' ') return false;
  text = skip_blanks(text.substr(4));
  return true;
}

// "Feb 03 10:11:12 node7 python3[812]: "; the kernel's own lines are left as they are.
bool take_journal(std::string_view& line) {
  std::string_view rest = line;
  if (!take_month(rest) || !take_digits(rest, 1, 2) || !take(rest, " ") || !take_time(rest) || !take(rest, " "))
    return false;
  const size_t host = rest.find(' ');
  if (host == npos || host == 0 || host > 64) return false;
  rest.remove_prefix(host + 1);
  const size_t colon = rest.find(": ");
  const std::string_view program = rest.substr(0, colon);
  if (colon == npos || program.empty() || !program.ends_with("]") || contains(program, " ")) return false;
  if (program.starts_with("systemd") || program.starts_with("kernel") || program.starts_with("earlyoom")) return false;
  line = rest.substr(colon + 2);
  return true;
}

// "> ", ">> > ": mail and answers in threads.
bool take_quote(std::string_view& line) {
  if (!line.starts_with(">") || line.starts_with(">>> ")) return false;  // the latter is Python's prompt
  const size_t end = line.find_first_not_of("> ");
  line.remove_prefix(std::min(end, line.size()));
  return true;
}

// "E       RuntimeError: …", pytest's mark.
bool take_pytest(std::string_view& line) {
  if (!line.starts_with("E  ")) return false;
  line = skip_blanks(line.substr(1));
  return true;
}

// "142\t", "  142 | ": listings of files.
bool take_number(std::string_view& line) {
  std::string_view rest = line;
  if (!take_digits(rest, 1, 7) || !(take(rest, "\t") || take(rest, " | "))) return false;
  line = skip_blanks(rest);
  return true;
}

// "trainer-1  | ", "gpu-node-3: ", "worker-0: ": names of containers and hosts, which end with a number.
bool take_host(std::string_view& line) {
  size_t end = 0;
  while (end < line.size() && is_name_part(line[end])) ++end;
  const std::string_view name = line.substr(0, end);
  std::string_view rest = line.substr(end);
  if (name.empty() || name.size() > 48 || std::isalpha(static_cast<unsigned char>(name[0])) == 0) return false;
  const size_t blanks = std::min(rest.find_first_not_of(' '), rest.size());
  const bool bar = blanks > 0 && rest.substr(blanks).starts_with("| ");
  if (bar) {
    line = rest.substr(blanks + 2);
    return true;
  }
  const size_t dash = name.find('-');
  const bool numbered = is_digit(name.back()) && dash != npos && name.find('.') == npos && !name.starts_with("slurm");
  if (!numbered || !take(rest, ": ")) return false;
  line = rest;
  return true;
}

// "`RuntimeError: …`", the whole line as code.
bool take_code(std::string_view& line) {
  const std::string_view text = trim(line);
  const std::string_view inner = text.size() > 2 ? text.substr(1, text.size() - 2) : std::string_view{};
  const bool pairs = std::count(inner.begin(), inner.end(), '`') % 2 == 0;
  if (inner.empty() || !text.starts_with("`") || !text.ends_with("`") || !pairs) return false;
  line = inner;
  return true;
}

// "I get this error: …": what leads in to a report is none of it.
bool take_lead(std::string_view& line) {
  constexpr std::string_view kLeads[] = {" this error", " following error", " an error",   " the error",
                                         " same error", " similar error",   " that error", " error message"};
  const size_t colon = line.find(": ");
  if (colon > 80) return false;  // npos, too
  const std::string_view label = line.substr(0, colon);
  if (std::none_of(std::begin(kLeads), std::end(kLeads), [&](auto lead) { return label.ends_with(lead); }))
    return false;
  line = skip_blanks(line.substr(colon + 2));
  return true;
}

// A container runtime's file: {"log":"…", of which the rest of the line is only the time.
bool take_json(std::string_view& line) { return take(line, "{\"log\":\""); }

bool take_level(std::string_view& line) {
  constexpr std::string_view kLevels[] = {"ERROR", "Error",   "error", "CRITICAL", "FATAL",
                                          "INFO",  "WARNING", "WARN",  "DEBUG"};
  std::string_view rest = line;
  if (std::none_of(std::begin(kLevels), std::end(kLevels), [&](auto level) { return take(rest, level); })) return false;
  rest = skip_blanks(rest);
  if (!take(rest, "- ") && !take(rest, "| ") && !take(rest, ": ")) return false;
  line = skip_blanks(rest);
  return true;
}

// "app.worker - ", "app.main:run:42 - "
bool take_logger(std::string_view& line) {
  const size_t end = line.find(" - ");
  if (end == npos || end == 0 || end > 48) return false;
  const std::string_view name = line.substr(0, end);
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) { return is_name_part(c) || c == ':'; });
  if (plain) line.remove_prefix(end + 3);
  return plain;
}

// "[E203 10:11:12.123456789 Worker.cpp:42] "
bool take_bracket(std::string_view& line) {
  const size_t end = line.starts_with("[") ? line.find("] ") : npos;
  if (end > 80) return false;  // npos, too
  line.remove_prefix(end + 2);
  return true;
}

}  // namespace

std::vector<std::string> unpacked_lines(std::string_view line) {
  std::vector<std::string> lines;
  if (!is_packed(line)) return lines;
  std::string text = unescape(line);
  for (int level = 1; level < kNested && is_packed(text); ++level) text = unescape(text);
  add_lines(text, lines);
  return lines;
}

std::string_view without_prefix(std::string_view line) {
  using Taker = bool (*)(std::string_view&);
  constexpr Taker kTakers[] = {take_stamp, take_journal, take_quote, take_pytest, take_number,
                               take_json,  take_host,    take_code,  take_lead};
  for (int most = 6; most > 0; --most) {
    std::string_view rest = skip_blanks(line);
    if (std::none_of(std::begin(kTakers), std::end(kTakers), [&](Taker taker) { return taker(rest); })) return line;
    line = rest;
  }
  return line;
}

std::string_view without_logger(std::string_view line) {
  for (int most = 4; most > 0; --most) {
    std::string_view rest = skip_blanks(line);
    if (!take_level(rest) && !take_logger(rest) && !take_bracket(rest)) return line;
    line = rest;
  }
  return line;
}

bool begins_record(std::string_view line) {
  constexpr std::string_view kBegins[] = {"* ",   "*/",   "//",    "# ",    "Traceback (most", "File \"",
                                          "INFO", "WARN", "ERROR", "DEBUG", "During handling"};
  std::string_view rest = line;
  return take_date(rest) ||
         std::any_of(std::begin(kBegins), std::end(kBegins), [&](auto begin) { return line.starts_with(begin); });
}

namespace {

// "[1]    9301 killed     python3 train.py", "[1]+  Killed                  python3 train.py"
bool is_killed_job(std::string_view line) {
  if (!take(line, "[") || !take_digits(line, 1, 3) || !take(line, "]")) return false;
  take_any(line, "+-");
  line = skip_blanks(line);
  if (take_digits(line, 1, 9)) line = skip_blanks(line);
  return line.starts_with("killed ") || line.starts_with("Killed ");
}

}  // namespace

bool is_killed_word(std::string_view line) {
  constexpr std::string_view kWords[] = {"Killed",
                                         "Killed.",
                                         "[Killed]",
                                         "**Killed**",
                                         "Killed: 9",
                                         "\xe5\xb7\xb2\xe6\x9d\x80\xe6\xad\xbb",              // Chinese
                                         "\xe5\xb7\xb2\xe7\xa0\x8d\xe6\x8e\x89",              // of Taiwan
                                         "\xe5\xbc\xb7\xe5\x88\xb6\xe7\xb5\x82\xe4\xba\x86",  // Japanese
                                         "\xec\xa3\xbd\xec\x97\x88\xec\x9d\x8c",              // Korean
                                         "\xd0\xa3\xd0\xb1\xd0\xb8\xd1\x82\xd0\xbe",          // Russian
                                         "Get\xc3\xb6tet",                                    // German
                                         "Tu\xc3\xa9",                                        // French
                                         "Processus arr\xc3\xaat\xc3\xa9",                    // French
                                         "Terminado (killed)",                                // Spanish
                                         "Ucciso",                                            // Italian
                                         "Morto",                                             // Portuguese
                                         "Unicestwiony",                                      // Polish
                                         "\xc3\x96ld\xc3\xbcr\xc3\xbcld\xc3\xbc"};            // Turkish
  std::string_view text = trim(line);
  if (take(text, "$ ")) text = trim(text);
  return is_killed_job(text) || std::find(std::begin(kWords), std::end(kWords), text) != std::end(kWords);
}

}  // namespace plimsoll::explain
