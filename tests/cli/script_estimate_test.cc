#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/cli/run.h"

namespace {

// A command that leaves what the Python side of an estimated script leaves: 600 MiB live at once in two tensors.
std::string leaves_result() {
  return R"(sh -c 'cd $PLIMSOLL_ESTIMATE_DIR; )"
         R"(printf "event,id,bytes,stream\nalloc,0,314572800,0\nalloc,1,314572800,0\nfree,0,314572800,0\n" > 7.csv.gz; )"
         R"(echo "{\"peak_allocated_bytes\": 629145600, \"peak_reserved_bytes\": 629145600, \"torch\": \"2\", )"
         R"(\"steps\": 3, \"seconds\": 1.5, \"assumptions\": [], \"at_peak\": {\"activation_bytes\": 629145600}, )"
         R"(\"modules\": []}" > 7.json')";
}

TEST(CliEstimateScript, ReplaysTheTraceWithTheMemoryOfTheCard) {
  const Outcome outcome = run_cli("estimate --json --gpu h200 -- " + leaves_result());
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const auto json = nlohmann::json::parse(outcome.output);
  EXPECT_EQ(json["fits"], true);
  EXPECT_EQ(json["peak_allocated_bytes"], 629145600);
  EXPECT_EQ(json["pool_reserved_bytes"], 629145600);
  EXPECT_EQ(json["expandable_segments_reserved_bytes"], 629145600);
  EXPECT_EQ(json["cuda_malloc_async_reserved_bytes"], 637534208);
  EXPECT_EQ(json["memory_bytes"], 150109880320);
  EXPECT_EQ(json["fits_on"].size(), 10u);
}

TEST(CliEstimateScript, SaysThatItDoesNotFitOnASmallCard) {
  const Outcome outcome = run_cli("estimate --gpu 1GiB -- " + leaves_result());
  EXPECT_EQ(outcome.status, 1) << outcome.output;
  const std::string text = std::regex_replace(outcome.output, std::regex("\\s+"), " ");  // it is folded
  EXPECT_NE(text.find("on a card of 1.00 GiB (1.00 GiB): DOES NOT FIT"), std::string::npos) << text;
  EXPECT_NE(outcome.output.find("fits on: t4, l4"), std::string::npos) << outcome.output;
}

TEST(CliEstimateScript, HalvesActivationsAndInputsOfTheTrace) {
  const std::string command =
      R"(sh -c 'cd $PLIMSOLL_ESTIMATE_DIR; )"
      R"(printf "event,id,bytes,stream,category,tag\nalloc,0,314572800,0,parameter,\nalloc,1,314572800,0,activation,\n" )"
      R"(> 7.csv.gz; echo "{\"peak_allocated_bytes\": 629145600, \"peak_reserved_bytes\": 629145600, )"
      R"(\"torch\": \"2\", \"steps\": 3, \"seconds\": 1.5, \"assumptions\": [], \"at_peak\": {}, )"
      R"(\"modules\": []}" > 7.json')";
  const Outcome outcome = run_cli("estimate --json -- " + command);
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(nlohmann::json::parse(outcome.output)["half_batch_reserved_bytes"], 314572800 + 157286400);
}

TEST(CliEstimateScript, WritesThePageOfItsSteps) {
  const std::string page = testing::TempDir() + "estimate_page.html";
  const Outcome outcome = run_cli("estimate --html " + page + " -- " + leaves_result());
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  std::ifstream file(page);
  std::string first;
  std::getline(file, first);
  EXPECT_NE(first.find("<!doctype html>"), std::string::npos) << first;
}

TEST(CliEstimateScript, RefusesWhatItCannotEstimate) {
  const Outcome card = run_cli("estimate --gpu abacus -- python train.py");
  EXPECT_EQ(card.status, 2);
  EXPECT_NE(card.output.find("--gpu is 'abacus': expected t4, l4"), std::string::npos) << card.output;
  const Outcome idle = run_cli("estimate -- sh -c true");
  EXPECT_EQ(idle.status, 2);
  EXPECT_NE(idle.output.find("used no CUDA memory"), std::string::npos) << idle.output;
  const Outcome failing = run_cli("estimate -- sh -c 'exit 7'");
  EXPECT_EQ(failing.status, 2);
  EXPECT_NE(failing.output.find("ended with status 7"), std::string::npos) << failing.output;
}

}  // namespace
