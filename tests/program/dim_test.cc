#include "plimsoll/program/dim.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/program/type.h"

namespace plimsoll::program {
namespace {

const Dim batch = Dim::symbol("batch");
const Dim seq = Dim::symbol("seq");

TEST(Dim, EqualExpressionsAreEqual) {
  EXPECT_EQ((batch + 1) * 2, batch * 2 + 2);
  EXPECT_EQ(batch * seq, seq * batch);
  EXPECT_EQ(batch - batch, Dim(0));
  EXPECT_EQ((batch + seq) * (batch - seq), batch * batch - seq * seq);
  EXPECT_NE(batch, seq);
  EXPECT_NE(batch, Dim(1));
}

TEST(Dim, DividesWhatDividesExactly) {
  EXPECT_EQ(floor_div(batch * seq * 768, seq * 12), batch * 64);
  EXPECT_EQ(floor_div(batch * 4 + 7, 2), batch * 2 + 3);
  EXPECT_EQ(ceil_div(batch * 64, 8), batch * 8);
  EXPECT_EQ(floor_div(batch + 1, batch + 1), Dim(1));
  EXPECT_EQ(floor_div(-7, 2), Dim(-4));
}

TEST(Dim, TextReadsBack) {
  const Dim half = floor_div(seq - 1, 2);
  for (const Dim dim : {Dim(7), Dim(-7), batch, batch * 3 - 2, half, half + 1, half * 3, half * batch * half,
                        floor_div(half, seq + 1), Dim(0) - batch, Dim(5) - batch * seq}) {
    EXPECT_EQ(parse_dim(dim.text()), dim) << dim.text();
  }
  EXPECT_EQ((half + 1).text(), "(seq-1)//2+1");
  EXPECT_EQ((half * 3 * batch).text(), "3*((seq-1)//2)*batch");
  EXPECT_EQ(parse_dim(" 2 * ( batch + 1 ) // 2 "), batch + 1);
}

TEST(Dim, BindsSymbols) {
  const Dim dim = floor_div(seq - 1, 2) * batch + 1;
  EXPECT_EQ(dim.bind({{"seq", 8}, {"batch", 5}}), Dim(16));
  EXPECT_EQ(dim.bind({{"seq", 9}}), batch * 4 + 1);
  EXPECT_THROW(dim.constant(), ArgumentError);
  EXPECT_THROW(floor_div(seq, batch).bind({{"batch", 0}}), ArgumentError);
}

TEST(Dim, RejectsOverflowAndNonsense) {
  EXPECT_THROW(Dim(INT64_MAX / 2) + 2, ArgumentError);
  EXPECT_THROW(batch * (int64_t{1} << 40) * (int64_t{1} << 40), ArgumentError);
  EXPECT_THROW(floor_div(batch, 0), ArgumentError);
  for (const char* text : {"", "batch+", "2x", "(batch", "a//", "a/2", "99999999999999999999", "a b", "*a", "3 4"}) {
    EXPECT_THROW(parse_dim(text), ArgumentError) << text;
  }
  EXPECT_THROW(parse_dim(std::string(100, '(') + "a"), ArgumentError);
  EXPECT_THROW(Dim::symbol("2x"), ArgumentError);
}

TEST(Dim, ExpressionsCannotGrowWithoutBound) {
  Dim sum = 1;
  for (char c = 'a'; c <= 'z'; ++c) sum = sum + Dim::symbol(std::string(1, c));
  EXPECT_THROW(sum * sum, ArgumentError);
}

TEST(Type, CountsBytesSymbolically) {
  const Type type{DType::f16, {batch, 3, 224}};
  EXPECT_EQ(type.bytes(), batch * 1344);
  EXPECT_EQ(type.text(), "f16[batch,3,224]");
  EXPECT_EQ(row_major(type.shape).text(), "[672,224,1]");
}

}  // namespace
}  // namespace plimsoll::program
