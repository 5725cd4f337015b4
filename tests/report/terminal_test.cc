#include "plimsoll/report/terminal.h"

#include <gtest/gtest.h>

namespace plimsoll::report {
namespace {

TEST(FoldLines, LeavesWhatFits) {
  EXPECT_EQ(fold_lines("one\n  two words\n\n", 20), "one\n  two words\n\n");
  EXPECT_EQ(fold_lines("12345678901234567890", 20), "12345678901234567890");
}

TEST(FoldLines, PutsTheRestUnderTheLastColumn) {
  EXPECT_EQ(fold_lines("  peak  2 GiB  of the process, predicted\n", 32),
            "  peak  2 GiB  of the process,\n               predicted\n");
}

TEST(FoldLines, IndentsWhatHasNoColumns) {
  EXPECT_EQ(fold_lines("a sentence of several words that goes on\n", 20),
            "a sentence of\n  several words that\n  goes on\n");
}

TEST(FoldLines, KeepsLongWordsWhole) {
  EXPECT_EQ(fold_lines("at /a/very/long/path/without/blanks here\n", 20),
            "at\n  /a/very/long/path/without/blanks\n  here\n");
}

TEST(FoldLines, CountsCharactersNotBytesAndNoColours) {
  EXPECT_EQ(fold_lines("█████ █████", 11), "█████ █████");
  EXPECT_EQ(fold_lines("\x1b[1;31mred\x1b[0m and blue", 12), "\x1b[1;31mred\x1b[0m and blue");
}

TEST(ToAscii, DrawsWithWhatThereIs) { EXPECT_EQ(to_ascii("▁█ ╌ a → b ü"), "_# - a > b ?"); }

}  // namespace
}  // namespace plimsoll::report
