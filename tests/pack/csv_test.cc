#include "plimsoll/pack/csv.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "plimsoll/base/error.h"

namespace plimsoll::pack {
namespace {

std::string error_of(std::string_view text) {
  try {
    parse_csv(text, "b.csv");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(PackCsv, ReadsTheBenchmarksForm) {
  const Table table = parse_csv("id,lower,upper,size\nb1,0,3,4\nb2,-3,9,5\n", "b.csv");
  EXPECT_EQ(table.ids, (std::vector<std::string>{"b1", "b2"}));
  EXPECT_EQ(table.buffers,
            (std::vector<Buffer>{{.bytes = 4, .first = 0, .end = 3}, {.bytes = 5, .first = -3, .end = 9}}));
}

// As spreadsheets write them.
TEST(PackCsv, AByteOrderMarkIsNoPartOfAName) {
  EXPECT_EQ(error_of("\xef\xbb\xbfid,lower,upper,size\r\na,0,3,4\r\n"), "no error");
}

TEST(PackCsv, ReadsOptionalColumnsInAnyOrder) {
  const Table table =
      parse_csv("gaps,size,id,offset,lower,upper,alignment\r\n2-3 5-8,64,a,128,0,9,64\r\n\r\n,1,b,,0,1,\r\n", "b.csv");
  ASSERT_EQ(table.buffers.size(), 2u);
  EXPECT_EQ(
      table.buffers[0],
      (Buffer{.bytes = 64, .first = 0, .end = 9, .alignment = 64, .fixed_offset = 128, .gaps = {{2, 3}, {5, 8}}}));
  EXPECT_EQ(table.buffers[1], (Buffer{.bytes = 1, .first = 0, .end = 1}));
}

TEST(PackCsv, WritesWhatItCanReadBack) {
  Table table = parse_csv("id,lower,upper,size,gaps,alignment\na,0,9,64,2-3 5-8,32\nb,-5,1,7,,1\n", "b.csv");
  const std::vector<int64_t> offsets = {64, 0};
  const Table back = parse_csv(to_csv(table, offsets), "out.csv");
  for (size_t i = 0; i < 2; ++i) table.buffers[i].fixed_offset = offsets[i];
  EXPECT_EQ(back.ids, table.ids);
  EXPECT_EQ(back.buffers, table.buffers);
}

TEST(PackCsv, SaysWhereAndWhatIsWrong) {
  EXPECT_EQ(error_of(""), "b.csv: empty, expected a header id,lower,upper,size");
  EXPECT_EQ(error_of("\n\n"), "b.csv: empty, expected a header id,lower,upper,size");
  EXPECT_EQ(error_of("id,lower,upper,size\n"), "b.csv: no buffers after the header");
  EXPECT_EQ(error_of("id,lower,size\n"), "b.csv:1: no column 'upper', expected id,lower,upper,size");
  EXPECT_EQ(error_of("id,lower,upper,size,colour\n"),
            "b.csv:1:21: found 'colour', expected one of the columns id,lower,upper,size,alignment,offset,gaps");
  EXPECT_EQ(error_of("id,id,lower,upper,size\n"), "b.csv:1:4: found 'id', expected each column once");
}

TEST(PackCsv, RejectsLinesThatMakeNoSense) {
  const auto line_error = [](std::string_view line) {
    return error_of("id,lower,upper,size,alignment,offset,gaps\nok,0,1,1,,,\n" + std::string(line));
  };
  EXPECT_EQ(line_error("a,0,1,4,,"), "b.csv:3: found 6 fields, expected 7");
  EXPECT_EQ(line_error("a,0,1,zero,,,"), "b.csv:3:7: found 'zero', expected a size of at least 1 byte");
  EXPECT_EQ(line_error("a,0,1,0,,,"), "b.csv:3:7: found '0', expected a size of at least 1 byte");
  EXPECT_EQ(line_error("a,0,1,-4,,,"), "b.csv:3:7: found '-4', expected a size of at least 1 byte");
  EXPECT_EQ(line_error("a,0,1,9223372036854775808,,,"),
            "b.csv:3:7: found '9223372036854775808', expected a size of at least 1 byte");
  EXPECT_EQ(line_error("a,0,1,9223372036854775807,,,"),
            "b.csv:3:7: found '9223372036854775807', expected sizes that add up to less than 2^63");
  EXPECT_EQ(line_error("a,1.5,3,4,,,"), "b.csv:3:3: found '1.5', expected an integer time");
  EXPECT_EQ(line_error("a,3,3,4,,,"), "b.csv:3:5: found '3', expected an end after the lower time 3");
  EXPECT_EQ(line_error("ok,0,1,4,,,"), "b.csv:3:1: found 'ok', expected each id once (first on line 2)");
  EXPECT_EQ(line_error(",0,1,4,,,"), "b.csv:3:1: found '', expected an id");
  EXPECT_EQ(line_error("a,0,1,4,0,,"), "b.csv:3:9: found '0', expected an alignment of at least 1 byte");
  EXPECT_EQ(line_error("a,0,1,4,8,12,"), "b.csv:3:11: found '12', expected a multiple of the alignment 8");
  EXPECT_EQ(line_error("a,0,9,4,,,5-3"), "b.csv:3:11: found '5-3', expected a gap that ends after it begins");
  EXPECT_EQ(line_error("a,0,9,4,,,2-4 3-5"),
            "b.csv:3:15: found '3-5', expected gaps in order, apart, within the lifetime");
  EXPECT_EQ(line_error("a,0,9,4,,,0-9"), "b.csv:3:11: found '0-9', expected gaps that leave some of the lifetime");
  EXPECT_EQ(line_error("a,0,9,4,,,7"), "b.csv:3:11: found '7', expected a gap like 3-5");
}

TEST(PackCsv, RefusesFixedOffsetsThatCollide) {
  EXPECT_EQ(error_of("id,lower,upper,size,offset\na,0,4,8,0\nfree,0,4,8,\nb,2,6,8,4\n"),
            "b.csv:4: the fixed offset 4 of 'b' collides with 'a' (line 2) at time 2");
}

TEST(PackCsv, NamesAFileThatCannotBeRead) {
  EXPECT_THROW(read_csv("/nowhere/b.csv"), SystemError);
  EXPECT_THROW(read_csv(std::filesystem::temp_directory_path()), SystemError);
}

}  // namespace
}  // namespace plimsoll::pack
