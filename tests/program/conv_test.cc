#include "plimsoll/program/ops/conv.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/shape.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

struct ConvCase {
  Shape x;
  Shape w;
  ConvOptions options;
  std::string type;
};

const std::vector<ConvCase> kConvCases = {
    {{1, 1, 1}, {1, 1, 1}, {}, "f32[1,1,1]"},
    {{2, 3, 17}, {5, 3, 3}, {}, "f32[2,5,15]"},
    {{1, 2, 257}, {3, 2, 31}, {.stride = {7}}, "f32[1,3,33]"},
    {{2, 4, 17}, {6, 2, 3}, {.stride = {2}, .padding = {1, 2}, .dilation = {3}, .groups = 2}, "f32[2,6,7]"},
    {{2, 3, 7, 5}, {4, 3, 3, 3}, {.padding = {1}}, "f32[2,4,7,5]"},
    {{1, 3, 9, 8}, {2, 3, 3, 2}, {.stride = {2, 3}, .padding = {0, 1, 2, 0}, .dilation = {2, 1}}, "f32[1,2,4,3]"},
    {{2, 3, 5, 5}, {3, 1, 3, 3}, {.stride = {2}, .padding = {1}, .groups = 3}, "f32[2,3,3,3]"},  // depthwise
    {{1, 2, 5, 4}, {4, 1, 1, 1}, {.groups = 2}, "f32[1,4,5,4]"},
    {{1, 2, 3, 5, 4}, {3, 2, 2, 3, 1}, {.stride = {1, 2, 1}, .padding = {1, 0, 0}}, "f32[1,3,4,2,4]"},
};

TEST(Conv, ValuesAndGradientsOnOddShapes) {
  for (const ConvCase& c : kConvCases) {
    SCOPED_TRACE(c.x.text() + " " + c.w.text());
    check_op({.operands = {{c.x}, {c.w}, {{c.w[0]}}},
              .build = [&](Builder& b, const std::vector<Value>& x) { return conv(b, x[0], x[1], x[2], c.options); },
              .type = c.type});
    check_op({.operands = {{c.x}, {c.w}},
              .build = [&](Builder& b, const std::vector<Value>& x) { return conv(b, x[0], x[1], {}, c.options); },
              .type = c.type});
  }
}

TEST(Conv, SlidesByHand) {
  check_op({.operands = {{.shape = {1, 1, 4}, .values = {1, 2, 3, 4}}, {.shape = {1, 1, 2}, .values = {10, 1}}},
            .build =
                [](Builder& b, const std::vector<Value>& x) {
                  return conv(b, x[0], x[1], {}, {.padding = {1, 0}});
                },
            .expected = {1, 12, 23, 34}});
}

TEST(Conv, ReadsViews) {
  check_op({.operands = {{{1, 7, 5, 3}}, {{3, 3, 2, 2}}},
            .build =
                [](Builder& b, const std::vector<Value>& x) {
                  return conv(b, transpose(b, x[0], {0, 3, 1, 2}), transpose(b, x[1], {1, 0, 3, 2}));
                },
            .type = "f32[1,3,6,4]"});
}

struct TransposeCase {
  Shape x;
  Shape w;
  ConvTransposeOptions options;
  std::string type;
};

const std::vector<TransposeCase> kTransposeCases = {
    {{1, 1, 1}, {1, 1, 1}, {}, "f32[1,1,1]"},
    {{2, 3, 17}, {3, 5, 3}, {.stride = {2}, .padding = {1}, .output_padding = {1}}, "f32[2,5,34]"},
    {{1, 4, 5, 3}, {4, 3, 3, 2}, {.stride = {2, 1}, .dilation = {2, 3}, .groups = 2}, "f32[1,6,13,6]"},
    {{2, 3, 3, 3}, {3, 1, 2, 2}, {.stride = {2}, .padding = {0, 1, 1, 0}, .groups = 3}, "f32[2,3,5,5]"},
    {{1, 2, 2, 3, 2}, {2, 3, 2, 1, 3}, {.stride = {1, 3, 2}, .output_padding = {0, 2, 1}}, "f32[1,3,3,9,6]"},
};

TEST(ConvTranspose, ValuesAndGradientsOnOddShapes) {
  for (const TransposeCase& c : kTransposeCases) {
    SCOPED_TRACE(c.x.text() + " " + c.w.text());
    check_op({.operands = {{c.x}, {c.w}, {{c.w[1] * c.options.groups}}},
              .build = [&](Builder& b,
                           const std::vector<Value>& x) { return conv_transpose(b, x[0], x[1], x[2], c.options); },
              .type = c.type});
  }
}

Value symbolic_conv(Builder& b) {
  const Value x = b.input("x", {DType::f32, {Dim::symbol("batch"), 3, Dim::symbol("h"), 32}});
  const Value w = b.parameter("w", {DType::f32, {8, 3, 3, 3}});
  return conv(b, x, w, b.parameter("bias", {DType::f32, {8}}), {.stride = {2}, .padding = {1}});
}

TEST(Conv, GradientsReadOnlyWhatTheyNeedAndOnlyWhenAsked) {
  Builder b;
  const Value y = symbolic_conv(b);
  const Root root{y, b.input("dy", b.type(y))};
  const std::vector<Value> wanted = {b.program().find("w"), b.program().find("bias")};
  gradients(b, std::span(&root, 1), wanted);
  ASSERT_EQ(b.program().ops.size(), 3u);
  EXPECT_EQ(b.program().ops[1].def->name, "conv_backward_weights");
  EXPECT_EQ(b.program().ops[1].inputs, (std::vector{root.seed, b.program().find("x")}));
  EXPECT_EQ(b.program().ops[2].def->name, "channel_sum");
  EXPECT_EQ(b.program().ops[2].inputs, (std::vector{root.seed}));
}

TEST(Conv, CountsFlopsSymbolically) {
  Builder b;
  const Value y = symbolic_conv(b);
  EXPECT_EQ(b.type(y).text(), "f32[batch,8,(h-1)//2+1,16]");
  const Bindings sizes = {{"batch", 2}, {"h", 32}};
  EXPECT_EQ(flops(b.program(), b.program().ops[0]).bind(sizes), Dim(2 * 8 * 16 * 16 * (2 * 3 * 9 + 1)));
}

void expect_rejected(const Shape& x, const Shape& w, const ConvOptions& options, const std::string& rule) {
  Builder b;
  const Value data = b.input("x", {DType::f32, Dims(x)});
  const Value weights = b.input("w", {DType::f32, Dims(w)});
  try {
    conv(b, data, weights, {}, options);
    FAIL() << rule;
  } catch (const ArgumentError& error) {
    EXPECT_EQ(error.what(), fmt::format("conv %conv: x is f32{}, w is f32{}; {}", x.text(), w.text(), rule));
  }
}

TEST(Conv, RejectsWhatDoesNotFit) {
  expect_rejected({1, 3, 8}, {4, 2, 3}, {}, "x has 3 channels, expected 2: groups times dimension 1 of w");
  expect_rejected({1, 4, 8}, {3, 2, 3}, {.groups = 2}, "dimension 0 of w (3) must be a multiple of groups (2)");
  expect_rejected({1, 2, 8}, {3, 2, 3}, {.groups = 0}, "dimension 0 of w (3) must be a multiple of groups (0)");
  expect_rejected({1, 2, 3}, {3, 2, 3}, {.dilation = {2}},
                  "a window spans 5 of dimension 2, which is 3 with padding 0 and 0");
  expect_rejected({1, 2, 8}, {3, 2, 3}, {.stride = {0}}, "stride is [0], expected at least 1 everywhere");
  expect_rejected({1, 2, 8}, {3, 2, 3}, {.padding = {-1}}, "padding is [-1], expected at least 0 everywhere");
  expect_rejected({1, 2, 8}, {3, 2, 3}, {.stride = {1, 2}},
                  "stride is [1,2], expected one number for each of the 1 spatial dimensions");
  expect_rejected({1, 2, 8}, {3, 2, 3, 3}, {}, "x and w must have as many dimensions");
  expect_rejected({1, 2}, {3, 2}, {}, "[3,2] must be [batch, channels] and one to three spatial dimensions");
}

TEST(ConvTranspose, RejectsWhatDoesNotFit) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {1, 4, 8}});
  const Value w = b.input("w", {DType::f32, {4, 2, 3}});
  EXPECT_THROW(conv_transpose(b, x, w, {}, {.output_padding = {1}}), ArgumentError);
  EXPECT_THROW(conv_transpose(b, x, w, {}, {.padding = {5}}), ArgumentError);
  EXPECT_THROW(conv_transpose(b, x, x), ArgumentError);
  EXPECT_THROW(conv_transpose(b, x, w, x), ArgumentError);
}

}  // namespace
}  // namespace plimsoll::program
