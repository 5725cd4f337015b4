// Text as a terminal can show it: no wider than its columns, and without characters that its locale does not have.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll::report {

inline constexpr int kUsualColumns = 80;

// Lines that are wider are folded at blanks; what follows stands under the last column of the line, which begins after
// two blanks or more. A word that is too long stays whole. Escape sequences for colours take no width.
std::string fold_lines(std::string_view text, int columns);

// Blocks, lines and other characters that are drawn, in ASCII.
std::string to_ascii(std::string_view text);

// What the environment says: COLUMNS where it is a number from 40 on, else 80; whether LC_ALL, LC_CTYPE or LANG, the
// first that is set, names UTF-8; whether colour is wanted there (NO_COLOR, TERM=dumb).
int columns_of_terminal();
bool has_utf8();
bool allows_colour();

}  // namespace plimsoll::report
