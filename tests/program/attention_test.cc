#include "plimsoll/program/ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/matmul.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/ops/softmax.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

// Operands q, k, v and perhaps a mask.
void check_attention(const std::vector<Operand>& operands, AttentionOptions options = {}) {
  check_op({.operands = operands, .build = [=](Builder& b, const std::vector<Value>& x) {
              AttentionOptions with = options;
              if (x.size() > 3) with.mask = x[3];
              return attention(b, x[0], x[1], x[2], with);
            }});
}

TEST(Attention, ValuesAndGradients) {
  for (const bool causal : {false, true}) {
    check_attention({{{2, 3, 5, 4}}, {{2, 3, 5, 4}}, {{2, 3, 5, 4}}}, {.causal = causal});
    check_attention({{{1, 2, 3, 7}}, {{1, 2, 17, 7}}, {{1, 2, 17, 1}}}, {.causal = causal, .scale = 0.7});
    check_attention({{{1, 1, 31, 1}}, {{1, 1, 31, 1}}, {{1, 1, 31, 3}}}, {.causal = causal});
  }
}

TEST(Attention, MasksBroadcast) {
  check_attention({{{2, 3, 4, 2}}, {{2, 3, 5, 2}}, {{2, 3, 5, 3}}, {{4, 5}}});
  check_attention({{{2, 3, 4, 2}}, {{2, 3, 5, 2}}, {{2, 3, 5, 3}}, {{2, 1, 1, 5}}}, {.causal = true});
  check_attention({{{2, 3, 4, 2}}, {{2, 3, 5, 2}}, {{2, 3, 5, 3}}, {{2, 3, 4, 5}, 0, 1, DType::boolean}});
}

TEST(Attention, ReadsViews) {
  check_op({.operands = {{{2, 5, 3, 4}}}, .build = [](Builder& b, const std::vector<Value>& x) {
              const Value heads = transpose(b, x[0], {0, 2, 1, 3});
              return attention(b, heads, heads, heads, {.causal = true});
            }});
}

TEST(Attention, FirstCausalQuerySeesTheFirstKeyOnly) {
  const double weight = 1 / (1 + std::exp(-2.0));  // of key 1 for query 1: scores 0 and 2
  check_op({.operands = {{.shape = {1, 1, 2, 1}, .values = {1, 1}},
                         {.shape = {1, 1, 2, 1}, .values = {0, 2}},
                         {.shape = {1, 1, 2, 1}, .values = {5, 7}}},
            .build = [](Builder& b,
                        const std::vector<Value>& x) { return attention(b, x[0], x[1], x[2], {.causal = true}); },
            .expected = {5, 5 + 2 * weight}});
}

TEST(Attention, QueryThatSeesNoKeyGivesZeros) {
  check_op(
      {.operands = {{{1, 1, 2, 3}},
                    {{1, 1, 2, 3}},
                    {.shape = {1, 1, 2, 1}, .values = {5, 7}},
                    {.shape = {2, 2}, .dtype = DType::boolean, .values = {0, 0, 0, 1}}},
       .build = [](Builder& b, const std::vector<Value>& x) { return attention(b, x[0], x[1], x[2], {.mask = x[3]}); },
       .expected = {0, 7}});
}

TEST(Attention, DropsWeightsAsDropoutOfThemWould) {
  const auto dropped = [](Builder& b, const std::vector<Value>& x) {
    return attention(b, x[0], x[1], x[2],
                     {.scale = 1, .seed = x[3], .dropout = {.rate = 0.4, .stream = 7, .offset = 3}});
  };
  const auto written_out = [](Builder& b, const std::vector<Value>& x) {
    const Value weights = softmax(b, matmul(b, x[0], x[1], {.transpose_b = true}));
    return matmul(b, dropout(b, weights, x[3], {.rate = 0.4, .stream = 7, .offset = 3}), x[2]);
  };
  const std::vector<Operand> operands = {
      {{2, 3, 5, 4}}, {{2, 3, 7, 4}}, {{2, 3, 7, 2}}, {.shape = {}, .dtype = DType::i64, .values = {20}}};
  check_op({.operands = operands, .build = dropped, .type = "f32[2,3,5,2]"});
  check_op({.operands = operands,
            .build = [&](Builder& b,
                         const std::vector<Value>& x) { return add(b, dropped(b, x), neg(b, written_out(b, x))); },
            .expected = std::vector<double>(2 * 3 * 5 * 2, 0.0)});
}

TEST(Attention, DropsWithAMaskToo) {
  check_op({.operands = {{{1, 2, 3, 4}},
                         {{1, 2, 5, 4}},
                         {{1, 2, 5, 4}},
                         {.shape = {}, .dtype = DType::i64, .values = {20}},
                         {{3, 5}}},
            .build = [](Builder& b, const std::vector<Value>& x) {
              return attention(b, x[0], x[1], x[2],
                               {.mask = x[4], .causal = true, .seed = x[3], .dropout = {.rate = 0.3}});
            }});
}

// What backward keeps beyond its operands grows with the sequence, not with its square.
TEST(Attention, BackwardReadsNothingOfTheSizeOfTheScores) {
  Builder b;
  const Dim sequence = Dim::symbol("sequence");
  std::vector<Value> wanted;
  for (const char* name : {"q", "k", "v"}) wanted.push_back(b.input(name, {DType::bf16, {8, 12, sequence, 64}}));
  const Root root{attention(b, wanted[0], wanted[1], wanted[2], {.causal = true})};
  gradients(b, std::span(&root, 1), wanted);
  const Program& program = b.program();
  EXPECT_EQ(program[program.ops[0].outputs[1]].type.text(), "f32[8,12,sequence]");
  for (const ValueInfo& value : program.values) {
    const Dim bytes = value.type.bytes();
    EXPECT_EQ(bytes.bind({{"sequence", 4096}}), Dim(4096) * bytes.bind({{"sequence", 1}})) << value.name;
  }
  EXPECT_EQ(program.ops.back().inputs.size(), 6u);
  EXPECT_EQ(program.ops.back().outputs[3], Value{});
}

TEST(Attention, RejectsOperandsThatDoNotFit) {
  Builder b;
  const Value q = b.input("q", {DType::f32, {2, 3, 5, 4}});
  const Value k = b.input("k", {DType::f32, {2, 3, 7, 5}});
  const Value mask = b.input("mask", {DType::f32, {5, 7}});
  EXPECT_EQ(error_of([&] { attention(b, q, k, k); }),
            "attention %attention: q is f32[2,3,5,4], k is f32[2,3,7,5], v is f32[2,3,7,5]; q "
            "[batch,heads,queries,dim] and k [batch,heads,keys,dim] must agree in batch, heads and dim");
  EXPECT_EQ(error_of([&] { attention(b, q, q, q, {.mask = mask}); }),
            "attention %attention: q is f32[2,3,5,4], k is f32[2,3,5,4], v is f32[2,3,5,4], mask is f32[5,7]; mask "
            "must broadcast to [batch,heads,queries,keys], [2,3,5,5]");
  EXPECT_EQ(error_of([&] { attention(b, q, q, mask); }),
            "attention %attention: q is f32[2,3,5,4], k is f32[2,3,5,4], v is f32[5,7]; v must have 4 dimensions, "
            "not 2");
}

}  // namespace
}  // namespace plimsoll::program
