#include "plimsoll/device/pinned.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "plimsoll/base/bytes.h"

namespace plimsoll::device {
namespace {

int64_t locked_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmLck:")) return std::stoll(line.substr(6)) * kKiB;
  }
  return -1;
}

TEST(Pinned, TakesWholePagesAndNoMore) {
  const int64_t page = pinned_bytes(1);
  EXPECT_EQ(pinned_bytes(0), 0);
  EXPECT_EQ(pinned_bytes(page), page);
  EXPECT_EQ(pinned_bytes(page + 1), 2 * page);
  const int64_t before = locked_bytes();
  {
    const PinnedMemory memory(find_device("sim"), 2 * page + 1);
    EXPECT_EQ(memory.bytes(), 3 * page);
    EXPECT_EQ(locked_bytes() - before, memory.bytes());
    EXPECT_TRUE(
        std::all_of(memory.data(), memory.data() + memory.bytes(), [](std::byte b) { return b == std::byte{}; }));
    const PinnedMemory none(cpu_device(), 0);
    EXPECT_EQ(none.data(), nullptr);
  }
  EXPECT_EQ(locked_bytes(), before);
}

// Root may lock beyond the limit, so the request is one that no address space has.
TEST(Pinned, SaysWhichLimitIsInTheWay) {
  try {
    const PinnedMemory memory(cpu_device(), int64_t{1} << 48);
    FAIL() << "256 TiB were locked";
  } catch (const PagesExhausted& error) {
    EXPECT_NE(std::string(error.what()).find("ulimit -l"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace plimsoll::device
