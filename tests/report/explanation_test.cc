#include "plimsoll/report/explanation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plimsoll/base/file.h"
#include "plimsoll/explain/explain.h"
#include "plimsoll/explain/record.h"
#include "plimsoll/report/chrome_trace.h"

namespace plimsoll::report {
namespace {

const std::string kData = PLIMSOLL_SOURCE_DIR "/tests/data/oom/";

explain::Explanation explain_file(const std::string& name) {
  return explain::explain(explain::read_input(kData + name), name);
}

TEST(ExplanationText, TellsCauseEvidenceAndRemedyOnOneScreen) {
  const std::string text = explanation_text(explain_file("oom_gpt2.pickle.gz"), {});
  for (const char* part :
       {"activations  (high confidence)", "3.35 GiB of the 3.89 GiB alive are activations", "4.00 GiB", "train.py:42",
        "what would help", "gradient_checkpointing_enable", "the same history"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 45);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(ExplanationText, ShowsWholeStacksOnDemand) {
  const auto explanation = explain_file("leak.pickle.gz");
  EXPECT_EQ(explanation_text(explanation, {}).find("_wrapped_call_impl"), std::string::npos);
  EXPECT_NE(explanation_text(explanation, {.full = true}).find("_wrapped_call_impl"), std::string::npos);
  EXPECT_NE(explanation_text(explanation, {.colour = true}).find('\x1b'), std::string::npos);
}

TEST(ExplanationText, TellsOneFailureOfSeveralRanksOnce) {
  const std::string text = explanation_text(explain_file("rocm_ranks.txt"), {});
  EXPECT_NE(text.find("on ranks 0-3"), std::string::npos) << text;
  EXPECT_EQ(text.find("what would help"), text.rfind("what would help")) << text;
}

TEST(ExplanationText, ABareLogSaysHowToRecordAndSoDoTheManuals) {
  const std::string text = explanation_text(explain_file("oom_gpt2.txt"), {});
  EXPECT_NE(text.find("_cuda_attach_out_of_memory_observer"), std::string::npos) << text;
  EXPECT_EQ(explanation_text(explain_file("jax_oom.txt"), {}).find("_cuda_attach"), std::string::npos);
  for (const char* manual : {"README.md", "docs/explain.md"}) {
    const std::string page = read_file(std::string(PLIMSOLL_SOURCE_DIR "/") + manual);
    EXPECT_NE(page.find(explain::recording_snippet()), std::string::npos) << manual;
  }
}

TEST(ExplanationJson, HasStableKeysAndSumsThatAddUp) {
  const auto json = nlohmann::json::parse(explanation_json(explain_file("leak.pickle.gz")));
  const auto& diagnosis = json["diagnoses"][0];
  EXPECT_EQ(diagnosis["cause"], "leak");
  EXPECT_EQ(diagnosis["leak_per_step_bytes"], 524288);
  EXPECT_TRUE(diagnosis["requested_bytes"].is_null());
  for (const auto& account : diagnosis["accounts"]) {
    int64_t sum = 0;
    for (const auto& part : account["parts"]) sum += part["part_bytes"].get<int64_t>();
    EXPECT_EQ(sum, account["total_bytes"]);
  }
}

TEST(ExplanationJson, SurvivesTextThatIsNotUtf8) {
  explain::Explanation explanation;
  explanation.diagnoses.emplace_back();
  explanation.diagnoses[0].message = "\xff\xfe \x80";
  const nlohmann::json parsed = nlohmann::json::parse(explanation_json(explanation));
  EXPECT_TRUE(parsed.is_object());
}

TEST(ChromeTrace, CountsLiveBytesByCategory) {
  const auto input = explain::read_input(kData + "oom_gpt2.pickle.gz");
  const auto json = nlohmann::json::parse(chrome_trace(input.snapshot));
  int64_t most = 0;
  bool oom = false;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] == "i") oom = oom || event["name"].get<std::string>().starts_with("out of memory at train.py:42");
    if (event["ph"] != "C") continue;
    int64_t live = 0;
    for (const auto& part : event["args"]) live += part.get<int64_t>();
    most = std::max(most, live);
  }
  EXPECT_TRUE(oom);
  EXPECT_EQ(most, 4'180'728'320) << "the peak that PyTorch's own counters had: 3987 MiB";
}

}  // namespace
}  // namespace plimsoll::report
