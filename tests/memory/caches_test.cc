#include "plimsoll/memory/caches.h"

#include <gtest/gtest.h>

#include "plimsoll/base/bytes.h"
#include "tests/memory/temp_folder.h"

namespace plimsoll {
namespace {

TEST(Caches, AreAsLargeAsTheSystemSays) {
  const TempFolder machine;
  const std::string caches = "sys/devices/system/cpu/cpu0/cache/";
  EXPECT_EQ(largest_cache_bytes(machine.path()), 0);
  machine.write(caches + "index0/size", "48K\n");
  machine.write(caches + "index1/size", "1M\n");
  EXPECT_EQ(largest_cache_bytes(machine.path()), kMiB);
  machine.write(caches + "index2/size", "32768K\n");
  EXPECT_EQ(largest_cache_bytes(machine.path()), 32 * kMiB);
}

}  // namespace
}  // namespace plimsoll
