#include "plimsoll/explain/line_dress.h"

#include <gtest/gtest.h>

namespace plimsoll::explain {
namespace {

using Lines = std::vector<std::string>;

TEST(LineDress, FindsTheLinesThatStandInOne) {
  EXPECT_EQ(unpacked_lines(R"({"msg":"Traceback:\n  File \"a.py\"\nError: x"})"),
            (Lines{R"({"msg":"Traceback:)", R"(  File "a.py")", R"(Error: x"})"}));
  EXPECT_EQ(unpacked_lines(R"("{\"log\":\"one\\nTwo\"}\n")"), (Lines{R"("{"log":"one)", R"(Two"})", R"(")"}));
  EXPECT_EQ(unpacked_lines("a plain line"), Lines{});
  EXPECT_EQ(unpacked_lines(R"(File "C:\new\net.py", line 3)"), Lines{});
  EXPECT_EQ(unpacked_lines(R"("C:\\new\\net.py\n  x")"), (Lines{R"("C:\new\net.py)", R"(  x")"}));
  EXPECT_EQ(unpacked_lines("ends with \\"), Lines{});
}

TEST(LineDress, TakesOffWhatSaysNothingOfTheLine) {
  const char* const kDressed[] = {"> RuntimeError: x",
                                  ">> > RuntimeError: x",
                                  "2025-02-03T10:11:12.123456789Z stderr F RuntimeError: x",
                                  "[2025-02-03 10:11:12] RuntimeError: x",
                                  "2025/02/03 10:11:12 RuntimeError: x",
                                  "2025-02-03T10:11:12+01:00 RuntimeError: x",
                                  "Feb  3 10:11:12 node7 python3[812]: RuntimeError: x",
                                  "E       RuntimeError: x",
                                  "  142\tRuntimeError: x",
                                  "trainer-1  | RuntimeError: x",
                                  "gpu-node-3: RuntimeError: x",
                                  "`RuntimeError: x`",
                                  "When it starts I get this error: RuntimeError: x",
                                  "{\"log\":\"RuntimeError: x"};
  for (const char* line : kDressed) EXPECT_EQ(without_prefix(line), "RuntimeError: x") << line;
}

TEST(LineDress, LeavesWhatTellsSomething) {
  for (const char* line : {"slurmstepd-node7: error: x", "Feb 03 10:11:12 host kernel: x", "python: error: x",
                           ">>> torch.zeros(1)", "ERROR x", "[rank3]: x", "2025-02-03", "12:34", "E", ">", ""}) {
    const std::string_view rest = without_prefix(line);
    EXPECT_TRUE(rest == line || rest.empty()) << line;
  }
  EXPECT_EQ(without_prefix("2025-02-03 10:11:12,123 - app - ERROR - x"), "app - ERROR - x");
}

TEST(LineDress, TakesOffTheLogger) {
  EXPECT_EQ(without_logger("app.worker - ERROR - MemoryError"), "MemoryError");
  EXPECT_EQ(without_logger("ERROR    | app.main:run:42 - MemoryError"), "MemoryError");
  EXPECT_EQ(without_logger("[E203 10:11:12.1 Worker.cpp:42] x"), "x");
  EXPECT_EQ(without_logger("Error: x"), "x");
  EXPECT_EQ(without_logger("a - b"), "b");
  EXPECT_EQ(without_logger("(a) - b"), "(a) - b");
}

TEST(LineDress, TellsWhereARecordBegins) {
  for (const char* line : {"2025-02-03 x", "Traceback (most recent call last):", "File \"a.py\"", "ERROR: x"}) {
    EXPECT_TRUE(begins_record(line)) << line;
  }
  for (const char* line : {"of which 3.06 GiB is free", "20.00 MiB", ""}) EXPECT_FALSE(begins_record(line)) << line;
}

TEST(LineDress, KnowsTheShellsWordInOtherLanguages) {
  for (const char* line :
       {"Killed", " Killed\r", "Killed: 9", "$  Killed", "[1]    9301 killed     python3 a.py",
        "[2]+  Killed                  ./a", "\xe5\xb7\xb2\xe6\x9d\x80\xe6\xad\xbb", "Get\xc3\xb6tet"}) {
    EXPECT_TRUE(is_killed_word(line)) << line;
  }
  for (const char* line : {"Killed it", "killed", "Terminated", "[1] killed", "[1]  done  a", ""})
    EXPECT_FALSE(is_killed_word(line)) << line;
}

}  // namespace
}  // namespace plimsoll::explain
