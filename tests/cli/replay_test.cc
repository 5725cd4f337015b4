#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/run.h"

namespace {

constexpr const char* kTrace = PLIMSOLL_SOURCE_DIR "/tests/data/traces/widecnn_b32.csv.gz";

TEST(CliReplay, PrintsPeaksAndCountsAsJson) {
  const Outcome outcome = run_cli(fmt::format("replay {} --policy torch --json", kTrace));
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const auto json = nlohmann::json::parse(outcome.output);
  EXPECT_EQ(json["policy"], "torch");
  EXPECT_EQ(json["events"], 847);
  EXPECT_EQ(json["live_peak_bytes"], 3'261'626'391);
  EXPECT_EQ(json["reserved_peak_bytes"], 7'105'150'976);
  EXPECT_NEAR(json["ratio"].get<double>(), 2.1784, 0.0001);
  EXPECT_EQ(json["page_bytes"], 2 << 20);
  EXPECT_EQ(json["pages_committed"], 7'105'150'976 / (2 << 20));
  EXPECT_EQ(json["pages_remapped"], 0);
  EXPECT_EQ(json["remapping_allocations"], 0);
  EXPECT_EQ(json["remapping_per_1000_events"], 0);
  EXPECT_GT(json["ns_per_event"], 0);
}

TEST(CliReplay, PrintsTheSameAsText) {
  const Outcome outcome = run_cli(fmt::format("replay {} --policy torch", kTrace));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.output.find("widecnn_b32.csv.gz: 847 events against torch\n"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("6.62 GiB  (7,105,150,976 bytes)"), std::string::npos) << outcome.output;
}

TEST(CliReplay, FailsWithTheReportWhenTheCapacityIsTooSmall) {
  const Outcome text = run_cli(fmt::format("replay {} --policy torch --capacity 3GiB", kTrace));
  EXPECT_EQ(text.status, 1);
  EXPECT_TRUE(text.output.starts_with("plimsoll: OOM when allocating memory on simulated by allocator torch: "))
      << text.output;
  const Outcome json = run_cli(fmt::format("replay {} --policy torch --capacity 3GiB --json", kTrace));
  EXPECT_EQ(json.status, 1);
  const auto report = nlohmann::json::parse(json.output);
  EXPECT_EQ(report["budget_bytes"], int64_t{3} << 30);
  EXPECT_EQ(report["budget_source"], "--capacity");
  EXPECT_EQ(report["largest_live"].size(), 10u);
  EXPECT_LE(report["reserved_bytes"], int64_t{3} << 30);
}

TEST(CliReplay, RefusesBadInputWithStatus2) {
  for (const char* arguments :
       {"replay /no/such/trace.csv", "replay", "replay x --policy malloc", "replay x --page 3"}) {
    EXPECT_EQ(run_cli(arguments).status, 2) << arguments;
  }
}

}  // namespace
