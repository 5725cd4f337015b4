#include "plimsoll/base/bytes.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"

namespace plimsoll {
namespace {

TEST(Bytes, WritesBinaryUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(3 * kGiB / 2), "1.50 GiB");
  EXPECT_EQ(format_bytes(40'000'000), "38.15 MiB");
  EXPECT_EQ(format_bytes(kMiB - 1), "1.00 MiB");  // never "1024.00 KiB"
  EXPECT_EQ(format_bytes(INT64_MAX), "8192.00 PiB");
}

TEST(Bytes, GroupsDigits) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(40'000'000), "40,000,000");
  EXPECT_EQ(format_count(-1000), "-1,000");
}

TEST(Bytes, ReadsWhatPeopleType) {
  EXPECT_EQ(parse_bytes("4096"), 4096);
  EXPECT_EQ(parse_bytes("1.50 GiB"), 3 * kGiB / 2);
  EXPECT_EQ(parse_bytes("512M"), 512 * kMiB);
  EXPECT_EQ(parse_bytes("2GB"), 2'000'000'000);
  EXPECT_EQ(parse_bytes("1e9"), 1'000'000'000);
  EXPECT_EQ(parse_bytes("2mib"), 2 * kMiB);
  EXPECT_EQ(parse_bytes(" 7 b "), 7);
  EXPECT_EQ(parse_bytes("9223372036854775807"), INT64_MAX);
}

TEST(Bytes, RejectsWhatIsNoSize) {
  for (const char* text : {"", " ", "abc", "-1", "-0", "1Q", "1.5.5G", "9223372036854775808", "8E", "1e400", "nan",
                           "inf", "GiB", "1 GiB x", "0x10"}) {
    EXPECT_FALSE(try_parse_bytes(text)) << text;
    EXPECT_THROW(parse_bytes(text), ArgumentError) << text;
  }
}

TEST(Bytes, ReadsBackWhatItWrites) {
  for (int64_t bytes = 1; bytes < kTiB; bytes = bytes * 7 + 3) {
    const int64_t back = parse_bytes(format_bytes(bytes));
    EXPECT_NEAR(static_cast<double>(back), static_cast<double>(bytes), 0.01 * static_cast<double>(bytes));
  }
}

TEST(Bytes, AlignsUpAndDown) {
  EXPECT_EQ(align_up(0, 256), 0);
  EXPECT_EQ(align_up(1, 256), 256);
  EXPECT_EQ(align_up(257, 3), 258);
  EXPECT_EQ(align_down(511, 256), 256);
}

}  // namespace
}  // namespace plimsoll
