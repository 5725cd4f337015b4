#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/run.h"

namespace {

const std::string kData = PLIMSOLL_SOURCE_DIR "/tests/data/oom/";

Outcome explain(const std::string& arguments) { return run_cli("explain " + arguments); }

void write(const std::string& path, std::string_view text) { std::ofstream(path) << text; }

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(CliExplain, AFindingExitsWithOneAndAHealthyRunWithZero) {
  EXPECT_EQ(explain(kData + "leak.pickle.gz").status, 1);
  EXPECT_EQ(explain(kData + "widecnn.pickle.gz").status, 0);
}

TEST(CliExplain, PrintsJson) {
  const Outcome outcome = explain(kData + "torch_ooms.txt --json");
  EXPECT_EQ(outcome.status, 1);
  const auto json = nlohmann::json::parse(outcome.output);
  ASSERT_EQ(json["diagnoses"].size(), 5u);
  EXPECT_EQ(json["diagnoses"][0]["cause"], "request_too_large");
}

TEST(CliExplain, ReadsStandardInput) {
  const Outcome outcome = explain(fmt::format("- < {}jax_oom.txt", kData));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.output.find("13.43 GiB"), std::string::npos) << outcome.output;
}

TEST(CliExplain, FindingNothingIsNoError) {
  const std::string path = testing::TempDir() + "quiet.log";
  write(path, "step 1\nstep 2\n");
  const Outcome outcome = explain(path);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.output.find("found nothing in 14 bytes; looked for"), std::string::npos) << outcome.output;
}

TEST(CliExplain, BadInputExitsWithTwo) {
  const std::string path = testing::TempDir() + "evil.pickle";
  write(path,
        "\x80\x02"
        "cos\nsystem\n.");
  const Outcome evil = explain(path);
  EXPECT_EQ(evil.status, 2);
  EXPECT_NE(evil.output.find("at byte 2: found the opcode GLOBAL"), std::string::npos) << evil.output;
  EXPECT_EQ(explain("/no/such/file").status, 2);
  write(path, "");
  EXPECT_EQ(explain(path).status, 2);
  EXPECT_EQ(explain(kData + "jax_oom.txt --chrome-trace " + path).status, 2);
}

TEST(CliExplain, WritesThePageAndTheTrace) {
  const std::string page = testing::TempDir() + "leak.html";
  const std::string trace = testing::TempDir() + "leak.json";
  explain(fmt::format("{}leak.pickle.gz --html {} --chrome-trace {}", kData, page, trace));
  EXPECT_TRUE(read(page).starts_with("<!doctype html>"));
  EXPECT_FALSE(nlohmann::json::parse(read(trace))["traceEvents"].empty());
}

}  // namespace
