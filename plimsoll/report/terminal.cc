#include "plimsoll/report/terminal.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace plimsoll::report {
namespace {

constexpr int kFewestColumns = 40;

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80; }

// Bytes of the escape sequence at `at`; 0 when there is none.
size_t escape_at(std::string_view line, size_t at) {
  if (line[at] != '\x1b') return 0;
  const size_t end = line.find('m', at);
  return end == line.npos ? line.size() - at : end + 1 - at;
}

// Where column `columns` of the line begins, or its end.
size_t byte_of_column(std::string_view line, int columns) {
  int column = 0;
  for (size_t at = 0; at < line.size();) {
    if (const size_t escape = escape_at(line, at)) {
      at += escape;
      continue;
    }
    if (column == columns) return at;
    ++column;
    for (++at; at < line.size() && continues_character(line[at]);) ++at;
  }
  return line.size();
}

// Blanks before what is folded: the start of the last column in the left part of the line.
size_t hanging_indent(std::string_view line, int columns) {
  const size_t first = std::min(line.find_first_not_of(' '), line.size());
  size_t indent = first + 2;
  const auto most = static_cast<size_t>(columns) * 6 / 10;
  for (size_t at = first; (at = line.find("  ", at)) != line.npos;) {
    const size_t begin = line.find_first_not_of(' ', at);
    if (begin == line.npos || begin > most) break;
    indent = begin;
    at = begin;
  }
  return std::min(indent, most);
}

void fold(std::string_view line, int columns, std::string& out) {
  const size_t indent = hanging_indent(line, columns);
  std::string rest(line);
  while (true) {
    const size_t limit = byte_of_column(rest, columns);
    if (limit == rest.size()) break;
    const size_t begin = rest.find_first_not_of(' ');
    size_t blank = rest.rfind(' ', limit);
    if (blank == rest.npos || blank <= begin) blank = rest.find(' ', limit);
    if (blank == rest.npos) break;
    const size_t next = rest.find_first_not_of(' ', blank);
    if (next == rest.npos) break;
    out.append(rest, 0, rest.find_last_not_of(' ', blank) + 1);
    out += '\n';
    rest = std::string(indent, ' ') + rest.substr(next);
  }
  out += rest;
}

std::string_view first_of(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name); value != nullptr && value[0] != '\0') return value;
  }
  return {};
}

constexpr std::array<std::pair<std::string_view, char>, 19> kAscii = {{{"▁", '_'},
                                                                       {"▂", '_'},
                                                                       {"▃", '.'},
                                                                       {"▄", '-'},
                                                                       {"▅", '='},
                                                                       {"▆", '*'},
                                                                       {"▇", '#'},
                                                                       {"█", '#'},
                                                                       {"╌", '-'},
                                                                       {"─", '-'},
                                                                       {"│", '|'},
                                                                       {"·", '.'},
                                                                       {"×", 'x'},
                                                                       {"–", '-'},
                                                                       {"—", '-'},
                                                                       {"…", '.'},
                                                                       {"►", '>'},
                                                                       {"→", '>'},
                                                                       {"•", '*'}}};

}  // namespace

std::string fold_lines(std::string_view text, int columns) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    fold(text.substr(at, end - at), columns, out);
    if (end < text.size()) out += '\n';
    at = end + 1;
  }
  return out;
}

std::string to_ascii(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      out += text[at++];
      continue;
    }
    const auto* const known = std::find_if(kAscii.begin(), kAscii.end(),
                                           [&](const auto& pair) { return text.substr(at).starts_with(pair.first); });
    out += known != kAscii.end() ? known->second : '?';
    for (++at; at < text.size() && continues_character(text[at]);) ++at;
  }
  return out;
}

int columns_of_terminal() {
  const std::string given(first_of({"COLUMNS"}));
  const int columns = given.empty() ? 0 : std::atoi(given.c_str());  // NOLINT(cert-err34-c): 0 is no width either
  return columns >= kFewestColumns ? columns : kUsualColumns;
}

bool has_utf8() {
  std::string locale(first_of({"LC_ALL", "LC_CTYPE", "LANG"}));
  std::transform(locale.begin(), locale.end(), locale.begin(), [](unsigned char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : static_cast<char>(c);
  });
  return locale.find("UTF-8") != locale.npos || locale.find("UTF8") != locale.npos;
}

bool allows_colour() { return first_of({"NO_COLOR"}).empty() && first_of({"TERM"}) != "dumb"; }

}  // namespace plimsoll::report
