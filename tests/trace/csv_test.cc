#include "plimsoll/trace/csv.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "plimsoll/base/error.h"
#include "plimsoll/base/gzip.h"

namespace plimsoll::trace {
namespace {

constexpr std::string_view kHeader = "event,id,bytes,stream\n";

Trace parse(std::string_view text) { return parse_csv(text, "run.csv"); }

// The message that `lines` after the usual header give; their first line is line 2.
std::string error_of(std::string_view lines, std::string_view header = kHeader) {
  try {
    parse(fmt::format("{}{}", header, lines));
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(TraceCsv, ReadsEventsInOrder) {
  const Trace trace = parse("event,id,bytes,stream\nalloc,7,512,0\nalloc,8,100,3\nfree,7,512,0\n");
  ASSERT_EQ(trace.events.size(), 3u);
  EXPECT_EQ(trace.events[1].id, 8);
  EXPECT_EQ(trace.events[1].bytes, 100);
  EXPECT_EQ(trace.events[1].stream, 3);
  EXPECT_EQ(trace.events[2].kind, EventKind::free);
}

TEST(TraceCsv, TakesColumnsInAnyOrderWithTimesAndTags) {
  const Trace trace =
      parse("tag,stream,bytes,id,event,category,time_ns\r\n\"conv1, \"\"w\"\"\",0,64,1,alloc,parameter,90\r\n");
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_EQ(trace.events[0].time_ns, 90);
  EXPECT_EQ(trace.tags[trace.events[0].tag], (Tag{Category::parameter, "conv1, \"w\""}));
}

TEST(TraceCsv, SkipsEmptyLinesAndNeedsNoLastLineEnd) {
  EXPECT_EQ(parse("event,id,bytes,stream\n\nalloc,1,8,0\n\nfree,1,8,0").events.size(), 2u);
  EXPECT_TRUE(parse("event,id,bytes,stream").events.empty());
}

TEST(TraceCsv, ReusesIdsAndTakesAddressesAsIds) {
  const std::string line = "alloc,140234567890944,8,0\nfree,140234567890944,8,0\n";
  EXPECT_EQ(parse(fmt::format("{}{}{}", kHeader, line, line)).events.size(), 4u);
}

TEST(TraceCsv, SaysWhatIsWrongWithTheHeader) {
  EXPECT_EQ(error_of("", ""),
            "run.csv:1:1: found '', expected one of the columns event,id,bytes,stream,time_ns,category,tag");
  EXPECT_EQ(error_of("", "event,id,size\n"),
            "run.csv:1:10: found 'size', expected one of the columns event,id,bytes,stream,time_ns,category,tag");
  EXPECT_EQ(error_of("", "event,id,bytes\n"), "run.csv:1:15: found the end of the header, expected a column stream");
  EXPECT_EQ(error_of("", "id,event,id\n"), "run.csv:1:10: found column id twice, expected each column once");
}

TEST(TraceCsv, SaysWhichFieldOfWhichLineIsWrong) {
  EXPECT_EQ(error_of("alloc,1,8,0\nrealloc,2,8,0\n"), "run.csv:3:1: found 'realloc', expected alloc or free");
  EXPECT_EQ(error_of("alloc,1,eight,0\n"),
            "run.csv:2:9: found 'eight', expected bytes as a whole number from 1 to 9223372036854775807");
  EXPECT_EQ(error_of("alloc,1,8\n"), "run.csv:2:10: found the end of the line, expected a comma and stream");
  EXPECT_EQ(error_of("alloc,1"), "run.csv:2:8: found the end of the file, expected a comma and bytes");
  EXPECT_EQ(error_of("alloc,1,8,0,9\n"), "run.csv:2:12: found ',9', expected the end of the line after 4 columns");
  EXPECT_EQ(error_of("alloc,1,8,40000\n"),
            "run.csv:2:11: found '40000', expected stream as a whole number from 0 to 32767");
}

TEST(TraceCsv, RefusesNumbersThatAreNoSizes) {
  for (const char* bytes : {"0", "-8", "8.5", "1e9", "+8", " 8", "9223372036854775808", "0x10", ""}) {
    const std::string error = error_of(fmt::format("alloc,1,{},0\n", bytes));
    EXPECT_TRUE(error.starts_with(fmt::format("run.csv:2:9: found '{}', expected bytes", bytes))) << error;
  }
}

TEST(TraceCsv, RefusesEventsThatMakeNoSense) {
  EXPECT_EQ(error_of("free,1,8,0\n"), "run.csv:2:1: id 1 is freed but was never allocated");
  EXPECT_EQ(error_of("alloc,1,8,0\nfree,1,8,0\nfree,1,8,0\n"), "run.csv:4:1: id 1 is freed twice");
  EXPECT_EQ(error_of("alloc,1,8,0\nfree,1,9,0\n"), "run.csv:3:1: id 1 is freed with 9 bytes but was allocated with 8");
  EXPECT_EQ(
      error_of("alloc,1,8,0\nfree,1,8,2\n"),
      "run.csv:3:1: id 1 is freed on stream 2 but was allocated on stream 0; a block goes back to its own stream");
  EXPECT_EQ(error_of("alloc,1,8,0\nalloc,1,8,0\n"),
            "run.csv:3:1: id 1 is allocated while it is alive; free it first, or use another id");
  EXPECT_EQ(error_of("alloc,1,9000000000000000000,0\n"),
            "run.csv:2:1: id 1 is allocated with 9000000000000000000 bytes: more than 1 EiB would be alive");
}

TEST(TraceCsv, RefusesTagsThatAreNotClosed) {
  constexpr std::string_view kTagged = "event,id,bytes,stream,tag\n";
  EXPECT_EQ(error_of("alloc,1,8,0,\"conv\nfree,1,8,0,\n", kTagged),
            "run.csv:2:13: found a quote that is not closed, expected a tag that ends in a double quote");
  EXPECT_TRUE(error_of("alloc,1,8,0,\"a\"b\n", kTagged).starts_with("run.csv:2:16: found 'b', expected a comma"));
}

TEST(TraceCsv, SaysInWhichLineTruncatedGzipEnds) {
  std::string text(kHeader);
  for (int id = 0; id < 20'000; ++id) text += fmt::format("alloc,{},{},0\n", id, 512 + id * 37 % 4096);
  const std::string whole = gzip(text);
  EXPECT_EQ(parse(whole).events.size(), 20'000u);
  try {
    parse(std::string_view(whole).substr(0, whole.size() / 2));
    FAIL() << "truncated gzip was read";
  } catch (const InputError& error) {
    EXPECT_GT(error.place().line, 1000);
    EXPECT_NE(std::string(error.what()).find("the gzip data ends early"), std::string::npos) << error.what();
  }
}

TEST(TraceCsv, RefusesCorruptGzip) {
  std::string bytes = gzip("event,id,bytes,stream\nalloc,1,8,0\n");
  EXPECT_EQ(parse(bytes).events.size(), 1u);
  std::string trailing = bytes + "garbage";
  EXPECT_THROW(parse(trailing), InputError);
  bytes[bytes.size() - 6] ^= 1;  // in the check sum
  EXPECT_THROW(parse(bytes), InputError);
}

TEST(TraceCsv, WritesWhatItReads) {
  const std::string text =
      "event,id,bytes,stream,time_ns,category,tag\n"
      "alloc,1,8,0,5,activation,\"a,\"\"b\"\"\nc\"\n"
      "alloc,2,16,1,9,other,\n"
      "free,1,8,0,12,activation,\"a,\"\"b\"\"\nc\"\n";
  EXPECT_EQ(to_csv(parse(text)), text);
  const std::string plain = "event,id,bytes,stream\nalloc,1,8,0\n";
  EXPECT_EQ(to_csv(parse(plain)), plain);
}

TEST(TraceCsv, WritesAndReadsFilesPlainAndGzip) {
  const Trace trace = read_csv(PLIMSOLL_SOURCE_DIR "/tests/data/traces/widecnn_b32.csv.gz");
  EXPECT_EQ(trace.events.size(), 847u);
  for (const char* name : {"trace_csv_test.csv", "trace_csv_test.csv.gz"}) {
    const std::string path = testing::TempDir() + name;
    write_csv(trace, path);
    EXPECT_EQ(to_csv(read_csv(path)), to_csv(trace));
    std::remove(path.c_str());
  }
}

TEST(TraceCsv, NamesTheFileThatCannotBeRead) {
  try {
    read_csv("/no/such/trace.csv");
    FAIL() << "read a file that is not there";
  } catch (const SystemError& error) {
    EXPECT_STREQ(error.what(), "reading '/no/such/trace.csv' failed: No such file or directory");
  }
}

}  // namespace
}  // namespace plimsoll::trace
