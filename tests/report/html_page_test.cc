// The page, opened in a real browser without network. Skips where there is no Chromium.
#include "plimsoll/report/html_page.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/file.h"
#include "plimsoll/explain/timeline.h"

namespace plimsoll::report {
namespace {

const std::string kData = PLIMSOLL_SOURCE_DIR "/tests/data/oom/";

std::string output_of(const std::string& command) {
  std::string output;
  std::FILE* pipe = popen(command.c_str(), "r");
  char buffer[4096];
  while (const size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, got);
  pclose(pipe);
  return output;
}

bool has_browser() { return std::system("command -v chromium >/dev/null 2>&1") == 0; }

// What the browser has made of the page once its script is done.
std::string dom_of(const std::string& page, const std::string& name) {
  const std::string path = testing::TempDir() + name + ".html";
  const std::string profile = testing::TempDir() + name + "-profile";
  std::filesystem::remove_all(profile);
  write_file(path, page);
  const std::string dom = output_of(
      fmt::format("timeout 120 chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
                  "--disable-background-networking --disable-component-update --disable-sync --user-data-dir={} "
                  "--virtual-time-budget=10000 --dump-dom file://{} 2>/dev/null",
                  profile, path));
  std::filesystem::remove_all(profile);
  return dom;
}

explain::Input million_events() {
  explain::Input input;
  input.kind = explain::InputKind::snapshot;
  explain::Snapshot& snapshot = input.snapshot;
  snapshot.source = "million";
  std::vector<uint32_t> stacks;
  for (int line = 1; line <= 50; ++line) {
    const uint32_t frame = snapshot.stacks.intern_frame(
        {snapshot.stacks.texts.intern("step"), snapshot.stacks.texts.intern("train.py"), line});
    stacks.push_back(snapshot.stacks.intern({&frame, 1}));
  }
  explain::DeviceState device;
  for (uint64_t i = 0; i < 500'000; ++i) {
    const auto time = static_cast<int64_t>(i);
    const auto bytes = static_cast<int64_t>(512 * (i % 997 + 1));
    device.events.push_back({time, i, bytes, stacks[i % 50], 0, explain::Action::alloc, 0});
    if (i < 100) continue;
    const auto freed = static_cast<int64_t>(512 * ((i - 100) % 997 + 1));
    device.events.push_back({time, i - 100, freed, 0, 0, explain::Action::free_requested, 0});
  }
  snapshot.devices.push_back(std::move(device));
  return input;
}

TEST(HtmlPage, AsksTheNetworkForNothing) {
  const auto input = explain::read_input(kData + "oom_gpt2.pickle.gz");
  const std::string page = html_page(explain::explain(input, "x"), input);
  for (const char* part : {"http://", "https://", "src=", "@import", "url("}) {
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  }
}

TEST(HtmlPage, NoTextOfTheInputCanBreakOut) {
  explain::Explanation explanation;
  explanation.source = "</script><script>alert(1)</script><!--";
  explanation.diagnoses.emplace_back();
  explanation.diagnoses[0].headline = "@HISTORY@ </ScRiPt> \xff";
  const std::string page = html_page(explanation, {});
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(page.find("</ScRiPt>"), std::string::npos);
  if (!has_browser()) GTEST_SKIP() << "no chromium: the page was not opened";
  const std::string dom = dom_of(page, "hostile");
  EXPECT_NE(dom.find("data-ready=\"yes\""), std::string::npos) << dom.substr(0, 2000);
}

TEST(HtmlPage, DrawsTheSamePeak) {
  if (!has_browser()) GTEST_SKIP() << "no chromium: the page was not opened";
  const auto input = explain::read_input(kData + "oom_gpt2.pickle.gz");
  const std::string dom = dom_of(html_page(explain::explain(input, "gpt2"), input), "gpt2");
  EXPECT_NE(dom.find("data-ready=\"yes\""), std::string::npos) << dom.substr(0, 2000);
  EXPECT_NE(dom.find("data-peak-bytes=\"4180728320\""), std::string::npos) << dom.substr(dom.find("<body"), 200);
  EXPECT_NE(dom.find("3.35 GiB of the 3.89 GiB alive are activations"), std::string::npos);
}

TEST(HtmlPage, OpensWithAMillionEvents) {
  if (!has_browser()) GTEST_SKIP() << "no chromium: the page was not opened";
  const auto input = million_events();
  explain::Explanation explanation;
  explanation.source = "million";
  const std::string dom = dom_of(html_page(explanation, input), "million");
  EXPECT_NE(dom.find("data-ready=\"yes\""), std::string::npos) << dom.substr(0, 2000);
  EXPECT_NE(dom.find("data-operations=\"999900\""), std::string::npos);
  const size_t at = dom.find("data-draw-ms=\"");
  ASSERT_NE(at, std::string::npos);
  EXPECT_LT(std::atof(dom.c_str() + at + 14), 2000) << "a redraw of everything, on a machine that may be busy";
}

}  // namespace
}  // namespace plimsoll::report
