#include "plimsoll/base/pickle.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"

namespace plimsoll {
namespace {

using std::string_literals::operator""s;

struct Parsed {
  TextTable texts;
  PickleHeap heap{texts};
  PickleValue root;
};

std::unique_ptr<Parsed> parse(std::string_view bytes) {
  auto parsed = std::make_unique<Parsed>();
  parsed->root = read_pickle(*open_memory(bytes, "x.pickle"), parsed->heap);
  return parsed;
}

std::string error_of(std::string_view bytes) {
  try {
    parse(bytes);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Pickle, ReadsNumbersOfEveryWidth) {
  // pickle.dumps([0, 255, 65535, -1, 2**31, -2**31, 2**59, 2**62, 2**64, 1.5], 2)
  const auto parsed = parse(
      "\x80\x02]q\x00(K\x00K\xffM\xff\xffJ\xff\xff\xff\xff\x8a\x05\x00\x00\x00\x80\x00J\x00\x00\x00\x80"
      "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x08\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x40"
      "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01G?\xf8\x00\x00\x00\x00\x00\x00"
      "e."s);
  const auto items = parsed->heap.items(parsed->root);
  ASSERT_EQ(items.size(), 10u);
  const std::vector<int64_t> expected = {
      0, 255, 65535, -1, int64_t{1} << 31, -(int64_t{1} << 31), int64_t{1} << 59, int64_t{1} << 62};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(parsed->heap.integer(items[i]), expected[i]) << i;
  EXPECT_EQ(parsed->heap.integer(items[8]), std::nullopt) << "2^64 does not fit";
  EXPECT_EQ(parsed->heap.number(items[8]), 0x1p64);
  EXPECT_EQ(parsed->heap.number(items[9]), 1.5);
}

TEST(Pickle, ReadsNegativeIntegersAboveEightBytes) {
  // -1 written needlessly long, as LONG1 of 9 bytes
  const auto parsed = parse("\x80\x04\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\xff."s);
  EXPECT_EQ(parsed->heap.integer(parsed->root), -1);
}

TEST(Pickle, FollowsTheMemoInBothNumberings) {
  // {"a": [1, 2], "b": the same list}: protocol 2 with BINPUT, protocol 4 with MEMOIZE and frames
  for (const std::string& bytes : {"\x80\x02}q\x00(X\x01\x00\x00\x00"
                                   "aq\x01]q\x02(K\x01K\x02"
                                   "eX\x01\x00\x00\x00"
                                   "bq\x03h\x02u."s,
                                   "\x80\x04\x95\x17\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01"
                                   "a\x94]\x94(K\x01K\x02"
                                   "e\x8c\x01"
                                   "b\x94h\x02u."s}) {
    const auto parsed = parse(bytes);
    const PickleValue list = parsed->heap.find(parsed->root, "b");
    EXPECT_EQ(parsed->heap.find(parsed->root, "a"), list);
    EXPECT_EQ(parsed->heap.items(list).size(), 2u);
  }
}

TEST(Pickle, GrowsListsThatComeInBatches) {
  std::string bytes = "\x80\x04]\x94"s;
  for (int batch = 0; batch < 50; ++batch) {
    bytes += "(";
    for (int i = 0; i < 100; ++i) bytes += "K\x07"s;
    bytes += "e";
    bytes += "]0";  // something else takes heap in between
  }
  const auto parsed = parse(bytes + ".");
  EXPECT_EQ(parsed->heap.items(parsed->root).size(), 5000u);
}

TEST(Pickle, RunsNoCode) {
  const std::string payload =
      "\x80\x02"
      "cos\nsystem\nX\x04\x00\x00\x00true\x85R."s;
  EXPECT_NE(error_of(payload).find("at byte 2: found the opcode GLOBAL"), std::string::npos) << error_of(payload);
  const std::pair<std::string, const char*> forbidden[] = {{"\x80\x04\x8c\x02os\x8c\x06system\x93."s, "STACK_GLOBAL"},
                                                           {"\x80\x02K\x01)R."s, "REDUCE"},
                                                           {"\x80\x02}}b."s, "BUILD"},
                                                           {"\x80\x02(ios\nsystem\n."s, "INST"},
                                                           {"\x80\x02(K\x01o."s, "OBJ"},
                                                           {"\x80\x02K\x01)\x81."s, "NEWOBJ"},
                                                           {"\x80\x04K\x01)}\x92."s, "NEWOBJ_EX"},
                                                           {"\x80\x02\x82\x01."s, "EXT1"},
                                                           {"\x80\x02Pabc\n."s, "PERSID"},
                                                           {"\x80\x02K\x01Q."s, "BINPERSID"},
                                                           {"\x80\x05\x97."s, "NEXT_BUFFER"}};
  for (const auto& [bytes, opcode] : forbidden) {
    EXPECT_NE(error_of(bytes).find(fmt::format("the opcode {},", opcode)), std::string::npos) << error_of(bytes);
  }
}

TEST(Pickle, DeepNestingCostsNoStack) {
  const size_t depth = 1'000'000;
  std::string bytes = "\x80\x04";
  bytes.append(depth, ']').append(depth - 1, 'a').append(".");
  EXPECT_EQ(error_of(bytes), "no error");
}

TEST(Pickle, HugeClaimsAllocateNothing) {
  EXPECT_NE(error_of("\x80\x04]r\xff\xff\xff\x7f."s).find("memo entry 2147483647 skips past 0"), std::string::npos);
  EXPECT_NE(error_of("\x80\x04X\xff\xff\xff\x03"s).find("cut short in a value of 67108863 bytes"), std::string::npos);
  EXPECT_NE(error_of("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f"s).find("expected at most"), std::string::npos);
  EXPECT_NE(error_of("\x80\x04\x8b\xff\xff\xff\x7f"s).find("expected at most"), std::string::npos);
}

TEST(Pickle, SaysWhatIsWrongWithMalformedOnes) {
  const std::pair<std::string, const char*> cases[] = {{""s, "the file is empty"},
                                                       {"hello"s, "found 'h', expected a pickle of protocol 2 to 5"},
                                                       {"\x80\x07."s, "found pickle protocol 7, expected 2 to 5"},
                                                       {"\x80\x02I1\n."s, "protocol 0 opcode INT"},
                                                       {"\x80\x02h\x05."s, "memo entry 5 is used before it is set"},
                                                       {"\x80\x02u."s, "needs a MARK"},
                                                       {"\x80\x02}(K\x01u."s, "key without a value"},
                                                       {"\x80\x02](K\x01K\x02u."s, "what is no dict"},
                                                       {"\x80\x02}K\x01"
                                                        "a."s,
                                                        "what is no list"},
                                                       {"\x80\x02."s, "unfinished value"},
                                                       {"\x80\x02(."s, "unfinished value"},
                                                       {"\x80\x02K\x01K\x02."s, "unfinished value"},
                                                       {"\x80\x02K\x01(a."s, "a value that is not there"},
                                                       {"\x80\x02\xff"s, "found byte 0xff"}};
  for (const auto& [bytes, part] : cases) {
    EXPECT_NE(error_of(bytes).find(part), std::string::npos) << part << " in: " << error_of(bytes);
  }
}

TEST(Pickle, CutAtEveryByteIsAnError) {
  const std::string whole =
      "\x80\x04\x95\x17\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01"
      "a\x94]\x94(K\x01M\x02\x01"
      "e\x8c\x01"
      "b\x94G?\xf8\x00\x00\x00\x00\x00\x00u."s;
  ASSERT_EQ(error_of(whole), "no error");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(error_of(std::string_view(whole).substr(0, size)), "no error") << size;
  }
}

}  // namespace
}  // namespace plimsoll
