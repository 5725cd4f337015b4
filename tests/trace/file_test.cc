#include "plimsoll/trace/file.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "plimsoll/base/error.h"
#include "plimsoll/trace/binary.h"
#include "plimsoll/trace/csv.h"

namespace plimsoll::trace {
namespace {

Trace sample() {
  Trace trace;
  trace.dropped = 3;
  const uint32_t weight = trace.tags.intern(Category::parameter, "conv1, \"w\"");
  const uint32_t noise = trace.tags.intern(Category::scratch, "");
  trace.events = {
      {.time_ns = 10, .id = 140'234'567'890'944, .bytes = 4096, .tag = weight, .stream = 3},
      {.time_ns = 20, .id = 7, .bytes = int64_t{1} << 59, .tag = noise},
      {.time_ns = 15, .id = 7, .bytes = int64_t{1} << 59, .kind = EventKind::free},
      {.time_ns = 25, .id = 140'234'567'890'944, .bytes = 4096, .tag = weight, .stream = 3, .kind = EventKind::free}};
  return trace;
}

std::string error_of(std::string_view bytes) {
  try {
    parse(bytes, "run.trace");
  } catch (const InputError& error) {
    EXPECT_GE(error.place().offset, 0) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(TraceBinary, ReadsWhatItWrote) {
  const Trace trace = parse(to_binary(sample()), "run.trace");
  EXPECT_EQ(to_csv(trace), to_csv(sample()));
  EXPECT_EQ(trace.dropped, 3);
}

TEST(TraceBinary, IsMuchSmallerThanTheEventsInMemory) {
  const Trace trace = read(PLIMSOLL_SOURCE_DIR "/tests/data/traces/resnet50_b64.csv.gz");
  const std::string bytes = to_binary(trace);
  EXPECT_LT(bytes.size(), 8 * trace.events.size());
  EXPECT_EQ(to_csv(parse(bytes, "run.trace")), to_csv(trace));
}

TEST(TraceBinary, TellsWhereATruncatedFileEnds) {
  const std::string whole = to_binary(sample());
  for (size_t size = 8; size < whole.size(); ++size) {
    const std::string error = error_of(whole.substr(0, size));
    EXPECT_TRUE(error.starts_with(fmt::format("run.trace at byte {}: found the end of the file", size))) << error;
  }
}

TEST(TraceBinary, NoticesEveryFlippedBit) {
  const std::string whole = to_binary(sample());
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_THROW(parse(damaged, "run.trace"), InputError) << "bit " << bit;
  }
}

TEST(TraceBinary, NamesTheVersionItCannotRead) {
  std::string bytes = to_binary(sample());
  bytes[8] = 2;
  EXPECT_TRUE(error_of(bytes).starts_with("run.trace at byte 8: found version 2, expected version 1"));
}

TEST(TraceBinary, RefusesEventsThatMakeNoSense) {
  Trace trace;
  trace.events = {{.id = 7, .bytes = 8, .kind = EventKind::free}};
  EXPECT_EQ(error_of(to_binary(trace)), "run.trace at byte 27: id 7 is freed but was never allocated");
}

TEST(TraceFile, KnowsTheFormByContent) {
  for (const char* name : {"trace_file_test.csv", "trace_file_test.csv.gz", "trace_file_test.plt"}) {
    const std::string path = testing::TempDir() + name;
    write(sample(), path);
    EXPECT_EQ(to_csv(read(path)), to_csv(sample())) << name;
    std::remove(path.c_str());
  }
}

}  // namespace
}  // namespace plimsoll::trace
