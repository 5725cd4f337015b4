#include "plimsoll/base/spec.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"

namespace plimsoll {
namespace {

TEST(DType, NamesReadBack) {
  for (const DType dtype : kAllDTypes) {
    EXPECT_EQ(parse_dtype(name(dtype)), dtype);
    EXPECT_EQ(parse_dtype(long_name(dtype)), dtype);
  }
  EXPECT_EQ(parse_dtype("float32"), DType::f32);
  EXPECT_EQ(parse_dtype("half"), DType::f16);
  EXPECT_THROW(parse_dtype("f31"), ArgumentError);
  EXPECT_THROW(parse_dtype(""), ArgumentError);
}

TEST(Shape, ReadsItsForms) {
  const Shape expected{384, 192};
  for (const char* text : {"384x192", "384,192", "[384, 192]", "(384,192)", "[384,192]"}) {
    EXPECT_EQ(parse_shape(text), expected) << text;
  }
  EXPECT_EQ(parse_shape("[]"), Shape{});
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ(expected.text(), "[384,192]");
}

TEST(Shape, RejectsWhatIsNoShape) {
  for (const char* text :
       {"", "x", "3x", "-1x2", "1.5", "[3,4", "3,4]", "[", "99999999999999999999", "1,2,3,4,5,6,7,8,9", "ax3"}) {
    EXPECT_THROW(parse_shape(text), ArgumentError) << text;
  }
}

TEST(Shape, ChecksOverflow) {
  const Shape huge{INT64_MAX, 2};
  EXPECT_THROW(huge.elements(), ArgumentError);
  EXPECT_EQ((Shape{INT64_MAX, 2, 0}).elements(), 0);
  EXPECT_THROW((TensorSpec{DType::f32, Shape{INT64_MAX / 2}}.bytes()), ArgumentError);
}

// P1 of the reference programs.
TEST(TensorSpec, CountsBytes) {
  EXPECT_EQ((TensorSpec{DType::f32, {10000, 1000}}.bytes()), 40'000'000);
  EXPECT_EQ((TensorSpec{DType::f32, {384, 192}}.bytes()), 294'912);
  EXPECT_EQ((TensorSpec{DType::f16, {384, 192}}.bytes()), 147'456);
  EXPECT_EQ((TensorSpec{DType::i8, {384, 192}}.bytes()), 73'728);
  EXPECT_EQ((TensorSpec{DType::f64, {}}.bytes()), 8);
}

}  // namespace
}  // namespace plimsoll
