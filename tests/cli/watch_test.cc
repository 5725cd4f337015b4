// `plimsoll watch` on real commands.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "plimsoll/base/bytes.h"
#include "tests/cli/run.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) {
    if (line.starts_with("{")) lines.push_back(Json::parse(line));
  }
  return lines;
}

TEST(Watch, ReadsAProcessOnce) {
  const Outcome text = run_cli(fmt::format("watch {} --once", getpid()));
  EXPECT_EQ(text.status, 0);
  EXPECT_TRUE(contains(text.output, "RSS ")) << text.output;
  EXPECT_TRUE(contains(text.output, " of ")) << text.output;
  const auto lines = json_lines(run_cli(fmt::format("watch {} --once --json", getpid())).output);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_GT(lines[0]["rss_bytes"], kMiB);
  EXPECT_GT(lines[0]["limit_bytes"], lines[0]["rss_bytes"]);
  EXPECT_GE(lines[0]["processes"], 1);
}

TEST(Watch, ReadsTheMachine) {
  const auto lines = json_lines(run_cli("watch --once --json").output);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0]["processes"], 0);
  EXPECT_GT(lines[0]["limit_bytes"], 0);
}

TEST(Watch, EndsAsTheCommandDoes) {
  EXPECT_EQ(run_cli("watch -- sh -c 'exit 7'").status, 7);
  EXPECT_EQ(run_cli("watch -- true").status, 0);
  EXPECT_EQ(run_cli("watch -- sh -c 'kill -9 $$'").status, 137);
  const Outcome missing = run_cli("watch -- no_such_command_here");
  EXPECT_EQ(missing.status, 127);
  EXPECT_TRUE(contains(missing.output, "cannot be run")) << missing.output;
  EXPECT_EQ(run_cli("watch 999999999").status, 2);
  EXPECT_EQ(run_cli("watch --interval 0 --once").status, 2);
}

TEST(Watch, PassesTheCommandsOutput) {
  const Outcome outcome = run_cli("watch -- sh -c 'echo hello; echo there >&2'");
  EXPECT_TRUE(contains(outcome.output, "hello\n")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "there\n")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "plimsoll: sh ran ")) << outcome.output;
}

// tail keeps all that it reads until the end: here 80 MB, for a second.
TEST(Watch, SeesAChildGrow) {
  const auto lines = json_lines(
      run_cli("watch --json --interval 0.1 -- sh -c '(head -c 80000000 /dev/zero; sleep 1.5) | tail | wc -c'").output);
  ASSERT_GE(lines.size(), 5U);
  int64_t most = 0;
  int64_t processes = 0;
  for (const Json& line : lines) {
    most = std::max<int64_t>(most, line["rss_bytes"]);
    processes = std::max<int64_t>(processes, line["processes"]);
  }
  EXPECT_GE(most, 80'000'000);
  EXPECT_GE(processes, 3);
  EXPECT_LT(lines[0]["rss_bytes"], most);
}

}  // namespace
}  // namespace plimsoll
