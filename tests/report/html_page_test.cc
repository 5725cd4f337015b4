// What pages hold. How they look and answer is tests/report/page_test.py's question, in a real browser.
#include "plimsoll/report/html_page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/explain/evidence.h"
#include "plimsoll/explain/timeline.h"
#include "plimsoll/report/segment_history.h"

namespace plimsoll::report {
namespace {

const std::string kData = PLIMSOLL_SOURCE_DIR "/tests/data/oom/";

Page page_of(const std::string& file) {
  const auto input = explain::read_input(kData + file);
  return explanation_page(explain::explain(input, file), input);
}

// The most bytes alive at one position, as a reader of the page would count them.
int64_t peak_of(const PageTimeline& timeline) {
  std::vector<int64_t> change(static_cast<size_t>(timeline.positions) + 1);
  for (const PageBlock& block : timeline.blocks) {
    change[static_cast<size_t>(block.begin)] += block.bytes;
    change[static_cast<size_t>(block.end)] -= block.bytes;
  }
  int64_t live = 0;
  int64_t peak = 0;
  for (const int64_t step : change) peak = std::max(peak, live += step);
  return peak;
}

const PageView& view_with(const Page& page, const std::string& switch_id) {
  for (size_t i = 0; i < page.switches.size(); ++i) {
    if (page.switches[i].id == switch_id) return page.views.at(size_t{1} << i);
  }
  throw std::logic_error("no switch " + switch_id);
}

TEST(HtmlPage, HoldsTheHistoryWithTheFailedRequest) {
  const Page page = page_of("oom_gpt2.pickle.gz");
  ASSERT_EQ(page.timelines.size(), 1u);
  EXPECT_EQ(peak_of(page.timelines[0]), 4180728320 + 96 * kMiB);
  EXPECT_EQ(page.views[0].peak_bytes, peak_of(page.timelines[0]));
  EXPECT_EQ(page.timelines[0].marks.back().kind, "failure");
  EXPECT_EQ(page.limit->bytes, 4 * kGiB);
  EXPECT_EQ(page.verdict.label, "activations");
}

TEST(HtmlPage, WhatIfAgreesWithTheExplanation) {
  const Page page = page_of("oom_gpt2.pickle.gz");
  const explain::Diagnosis& diagnosis = page.explanation->diagnoses[0];
  const auto needed = [&](const std::string& name) {
    for (const explain::Counterfactual& other : diagnosis.counterfactuals) {
      if (other.name == name) return other.needs_bytes;
    }
    return int64_t{-1};
  };
  EXPECT_EQ(view_with(page, "half_batch").peak_bytes, needed("at half the batch: live"));
  ASSERT_EQ(page.views[0].reserved.size(), 4u);
  EXPECT_EQ(page.views[0].reserved[0].peak_bytes, needed("as it was: reserved"));
  EXPECT_EQ(page.views[0].reserved[1].peak_bytes, needed("under PyTorch's allocator from a fresh start"));
  EXPECT_EQ(page.views[0].reserved[3].peak_bytes, needed("under Plimsoll's pool"));
}

TEST(HtmlPage, CheckpointingSavesWhatTheRemedySays) {
  const Page page = page_of("oom_gpt2.pickle.gz");
  const auto input = explain::read_input(kData + "oom_gpt2.pickle.gz");
  const auto& device = input.snapshot.devices[0];
  const auto timeline = make_timeline(input.snapshot, device, stack_roles(input.snapshot.stacks));
  const auto repeated = find_repeated_blocks(input.snapshot.stacks, timeline, explain::find_oom(device)->event);
  ASSERT_TRUE(repeated);
  const int64_t saved = repeated->bytes - repeated->bytes / repeated->count - repeated->bytes / 10;
  EXPECT_NEAR(static_cast<double>(page.views[0].peak_bytes - view_with(page, "checkpointing").peak_bytes),
              static_cast<double>(saved), 1e5);
}

TEST(HtmlPage, WithoutTheLeakNothingGrows) {
  const Page page = page_of("leak.pickle.gz");
  EXPECT_LT(view_with(page, "no_leak").peak_bytes, page.views[0].peak_bytes - 95 * kMiB);
  for (const PageSwitch& entry : page.switches) EXPECT_NE(entry.id, "checkpointing") << "what leaks is no block";
}

TEST(HtmlPage, SegmentsHoldEveryBlock) {
  const PageTimeline timeline = page_of("oom_gpt2.pickle.gz").timelines.at(0);
  const int32_t at = timeline.marks.back().at;
  int64_t reserved = 0;
  for (const PageRange& range : timeline.ranges) reserved += range.begin <= at && at < range.end ? range.bytes : 0;
  EXPECT_EQ(format_bytes(reserved), "3.93 GiB");
  for (const PageBlock& block : timeline.blocks) {
    if (block.begin > at || block.end <= at || block.category == kFailedRequest) continue;
    const bool inside = std::any_of(timeline.ranges.begin(), timeline.ranges.end(), [&](const PageRange& range) {
      return range.begin <= at && at < range.end && range.address <= block.address &&
             block.address + block.bytes <= range.address + range.bytes;
    });
    EXPECT_TRUE(inside) << block.address;
  }
}

explain::SnapshotEvent segment_event(explain::Action action, uint64_t address, int64_t bytes) {
  explain::SnapshotEvent event;
  event.action = action;
  event.address = address;
  event.bytes = bytes;
  return event;
}

TEST(SegmentHistory, GivesBackPartsAndKnowsWhatIsOlder) {
  using explain::Action;
  explain::DeviceState device;
  device.events = {segment_event(Action::segment_map, 1000, 400), segment_event(Action::segment_unmap, 1100, 100),
                   segment_event(Action::segment_free, 5000, 50)};
  explain::Segment kept;
  kept.address = 1000;
  kept.bytes = 100;
  explain::Segment old;
  old.address = 9000;
  old.bytes = 10;
  device.segments = {kept, old};
  const std::vector<PageRange> ranges = segment_history(device);
  const auto reserved = [&](int32_t at) {
    int64_t bytes = 0;
    for (const PageRange& range : ranges) bytes += range.begin <= at && at < range.end ? range.bytes : 0;
    return bytes;
  };
  EXPECT_EQ(reserved(0), 400 + 50 + 10);
  EXPECT_EQ(reserved(1), 300 + 50 + 10);
  EXPECT_EQ(reserved(2), 300 + 10);
}

TEST(HtmlPage, NamesNothingOutsideOfIt) {
  if (!has_page()) GTEST_SKIP() << "this build has no page";
  const auto input = explain::read_input(kData + "oom_gpt2.pickle.gz");
  const std::string page = html_page(explain::explain(input, "x"), input);
  for (const char* part : {" src=", " href=", "@import", "url(", "fetch(", "XMLHttpRequest", "WebSocket"}) {
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  }
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
}

TEST(HtmlPage, NoTextOfTheInputCanBreakOut) {
  if (!has_page()) GTEST_SKIP() << "this build has no page";
  explain::Explanation explanation;
  explanation.source = "</script><script>alert(1)</script><!--";
  explanation.diagnoses.emplace_back();
  explanation.diagnoses[0].headline = "</ScRiPt> \xff";
  const std::string page = html_page(explanation, {});
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(page.find("</ScRiPt>"), std::string::npos);
}

TEST(HtmlPage, JsonHasTheKeysOfItsFormat) {
  const auto json = nlohmann::json::parse(page_json(page_of("oom_gpt2.pickle.gz")));
  EXPECT_EQ(json["schema"], 1);
  for (const char* key : {"verb", "title", "verdict", "figures", "limit", "cards", "diagnoses", "categories", "frames",
                          "frame_kinds", "labels", "timelines", "switches", "allocators", "views", "notes"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["views"].size(), size_t{1} << json["switches"].size());
}

TEST(HtmlPage, ALogHasNoHistory) {
  const Page page = page_of("torch_ooms.txt");
  EXPECT_TRUE(page.views.empty());
  EXPECT_GT(page.explanation->diagnoses.size(), 3u);
  EXPECT_FALSE(page.cards.empty());
}

}  // namespace
}  // namespace plimsoll::report
