#include "plimsoll/report/watch_view.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "plimsoll/base/bytes.h"

namespace plimsoll::report {
namespace {

WatchReading reading() {
  WatchReading made{.seconds = 12, .subject = "python train.py"};
  made.tree = {.processes = 2, .rss_bytes = 3 * kGiB, .pss_bytes = 2 * kGiB, .shared_bytes = kMiB};
  made.limit = {.used_bytes = 3 * kGiB, .limit_bytes = 4 * kGiB, .page_cache_bytes = kGiB, .source = "cgroup v2 /job"};
  made.cards = {{.name = "NVIDIA H200",
                 .bus_id = "0",
                 .total_bytes = 140 * kGiB,
                 .used_bytes = 133 * kGiB,
                 .utilisation_percent = 97,
                 .processes = {{.pid = 77, .used_bytes = 130 * kGiB}, {.pid = 78, .used_bytes = -1}}}};
  made.bytes_per_second = 10.0 * kMiB;
  made.seconds_left = 102;
  return made;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

int columns_in(const std::string& line) {
  int columns = 0;
  for (const char c : line) columns += (c & 0xC0) != 0x80 ? 1 : 0;
  return columns;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(WatchView, ShowsProcessesLimitAndCards) {
  const auto lines = watch_view(reading(), {1, 2, 3, 4}, 80, false);
  const std::string text = joined(lines);
  for (const char* part : {"python train.py, 2 processes", "PSS 2.00 GiB  RSS 3.00 GiB  shared 1.00 MiB", " 75 %",
                           "cgroup v2 /job, page cache 1.00 GiB", "NVIDIA H200, busy 97 %, 77: 130.00 GiB, 78: ?",
                           " 95 %", "warning: full in 1 min 42 s (+10.00 MiB/s)"}) {
    EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
  }
  for (const std::string& line : lines) EXPECT_LE(columns_in(line), 80) << line;
  EXPECT_FALSE(contains(text, "\x1b"));
  EXPECT_TRUE(contains(joined(watch_view(reading(), {}, 80, true)), "\x1b[31m"));
}

TEST(WatchView, WarnsOnlyOfWhatIsNear) {
  WatchReading far = reading();
  far.seconds_left = 3000;
  EXPECT_FALSE(contains(joined(watch_view(far, {}, 80, false)), "warning"));
  EXPECT_FALSE(contains(watch_line(far), "full in"));
  EXPECT_TRUE(contains(watch_line(reading()), "full in 1 min 42 s"));
}

TEST(WatchView, IsJsonWithBytesAsIntegers) {
  const auto json = watch_json(reading());
  EXPECT_EQ(json["pss_bytes"], 2 * kGiB);
  EXPECT_EQ(json["limit_source"], "cgroup v2 /job");
  EXPECT_EQ(json["seconds_left"], 102);
  EXPECT_EQ(json["gpus"][0]["processes"][0]["pid"], 77);
  WatchReading calm = reading();
  calm.seconds_left.reset();
  EXPECT_TRUE(watch_json(calm)["seconds_left"].is_null());
}

}  // namespace
}  // namespace plimsoll::report
