#include "plimsoll/program/ops/elementwise_binary.h"

#include <gtest/gtest.h>

#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/shape.h"
#include "tests/program/op_check.h"

namespace plimsoll::program {
namespace {

using Binary = Value (*)(Builder&, Value, Value);

struct Pair {
  Shape x;
  Shape z;
  const char* type;
};

const std::vector<Pair> kPairs = {{{1}, {1}, "f32[1]"},
                                  {{257}, {257}, "f32[257]"},
                                  {{3, 17}, {17}, "f32[3,17]"},
                                  {{17}, {3, 17}, "f32[3,17]"},
                                  {{3, 1}, {31}, "f32[3,31]"},
                                  {{2, 3, 5}, {3, 1}, "f32[2,3,5]"},
                                  {{1, 3, 1}, {2, 1, 5}, "f32[2,3,5]"},
                                  {{}, {3, 17}, "f32[3,17]"},
                                  {{31}, {}, "f32[31]"},
                                  {{}, {}, "f32[]"}};

void check_on_pairs(Binary op, double low, double high) {
  for (const Pair& pair : kPairs) {
    SCOPED_TRACE(pair.x.text() + pair.z.text());
    check_op({.operands = {{pair.x, low, high}, {pair.z, low, high}},
              .build = [op](Builder& b, const std::vector<Value>& x) { return op(b, x[0], x[1]); },
              .type = pair.type});
  }
}

TEST(ElementwiseBinary, ArithmeticBroadcastsAndItsGradientsAreSummedBack) {
  for (const Binary op : {add, sub, mul, maximum, minimum}) check_on_pairs(op, -2, 2);
  for (const Binary op : {Binary(div), Binary(pow)}) check_on_pairs(op, 0.5, 2);
}

TEST(ElementwiseBinary, OneOperandMayStandTwice) {
  for (const Binary op : {Binary(add), Binary(sub), Binary(mul), Binary(div)}) {
    check_op({.operands = {{{3, 5}, 0.5, 2}},
              .build = [op](Builder& b, const std::vector<Value>& x) { return op(b, x[0], x[0]); }});
  }
}

TEST(ElementwiseBinary, ViewsBroadcast) {
  check_op({.operands = {{{5, 3}}, {{5}}},
            .build =
                [](Builder& b, const std::vector<Value>& x) {
                  return mul(b, transpose(b, x[0], {1, 0}), x[1]);
                },
            .type = "f32[3,5]"});
}

TEST(ElementwiseBinary, ComparisonsMakeBool) {
  const std::vector<std::pair<Binary, std::vector<double>>> cases = {{eq, {0, 1, 0}}, {ne, {1, 0, 1}}, {lt, {1, 0, 0}},
                                                                     {le, {1, 1, 0}}, {gt, {0, 0, 1}}, {ge, {0, 1, 1}}};
  for (const auto& [op, expected] : cases) {
    for (const DType dtype : {DType::f32, DType::i64}) {
      const Binary compare = op;
      check_op({.operands = {{.shape = {3}, .dtype = dtype, .values = {1, 2, 3}},
                             {.shape = {1}, .dtype = dtype, .values = {2}}},
                .build = [compare](Builder& b, const std::vector<Value>& x) { return compare(b, x[0], x[1]); },
                .type = "bool[3]",
                .expected = expected,
                .differentiable = false});
    }
  }
}

TEST(ElementwiseBinary, LogicOfBool) {
  const std::vector<std::pair<Binary, std::vector<double>>> cases = {
      {logical_and, {0, 0, 0, 1}}, {logical_or, {0, 1, 1, 1}}, {logical_xor, {0, 1, 1, 0}}};
  const std::vector<Operand> operands = {{.shape = {4}, .dtype = DType::boolean, .values = {0, 0, 1, 1}},
                                         {.shape = {4}, .dtype = DType::boolean, .values = {0, 1, 0, 1}}};
  for (const auto& [op, expected] : cases) {
    const Binary combine = op;
    check_op({.operands = operands,
              .build = [combine](Builder& b, const std::vector<Value>& x) { return combine(b, x[0], x[1]); },
              .expected = expected});
  }
  check_op({.operands = {operands[0]},
            .build = [](Builder& b, const std::vector<Value>& x) { return logical_not(b, x[0]); },
            .expected = {1, 1, 0, 0}});
}

TEST(ElementwiseBinary, IntegersAddSubtractAndMultiply) {
  const std::vector<std::pair<Binary, double>> cases = {{add, 2}, {sub, -8}, {mul, -15}, {maximum, 5}, {minimum, -3}};
  for (const auto& [op, expected] : cases) {
    const Binary combine = op;
    check_op({.operands = {{.shape = {1}, .dtype = DType::i32, .values = {-3}},
                           {.shape = {}, .dtype = DType::i32, .values = {5}}},
              .build = [combine](Builder& b, const std::vector<Value>& x) { return combine(b, x[0], x[1]); },
              .expected = {expected}});
  }
}

TEST(ElementwiseBinary, WhereTakesOneOrTheOther) {
  for (const Shape& condition : {Shape{3, 17}, Shape{17}, Shape{3, 1}, Shape{}}) {
    check_op({.operands = {{condition, 0, 1, DType::boolean}, {{3, 17}}, {{17}}},
              .build = [](Builder& b, const std::vector<Value>& x) { return where(b, x[0], x[1], x[2]); },
              .type = "f32[3,17]"});
    check_op({.operands = {{condition, 0, 1, DType::boolean}, {{3, 17}}},
              .build = [](Builder& b, const std::vector<Value>& x) { return keep_where(b, x[1], x[0], false); },
              .type = "f32[3,17]"});
  }
}

// What the backward ops of op(x, z) read besides gradients.
std::set<std::string> read_by_backward_of(Binary op, std::initializer_list<const char*> wanted) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {16}});
  const Value z = b.input("z", {DType::f32, {16}});
  const Value y = op(b, x, z);
  b.rename(y, "y");
  std::vector<Value> values;
  for (const char* name : wanted) values.push_back(b.program().find(name));
  const Root root{y, b.input("dy", b.type(y))};
  gradients(b, std::span(&root, 1), values);
  std::set<std::string> names;
  for (const Op& backward : b.program().ops) {
    for (const Value value : backward.inputs) {
      const std::string& name = b.program()[value].name;
      const bool kept = name == "x" || name == "z" || name.starts_with('y');
      if (backward.phase == Phase::backward && kept) names.insert(name);
    }
  }
  return names;
}

using Names = std::set<std::string>;

TEST(ElementwiseBinary, BackwardReadsAsLittleAsItCan) {
  EXPECT_EQ(read_by_backward_of(add, {"x", "z"}), Names{});
  EXPECT_EQ(read_by_backward_of(sub, {"x", "z"}), Names{});
  EXPECT_EQ(read_by_backward_of(mul, {"x"}), Names{"z"});
  EXPECT_EQ(read_by_backward_of(mul, {"z"}), Names{"x"});
  EXPECT_EQ(read_by_backward_of(div, {"x"}), Names{"z"});
  EXPECT_EQ(read_by_backward_of(div, {"x", "z"}), (Names{"y", "z"}));
  EXPECT_EQ(read_by_backward_of(maximum, {"x", "z"}), Names{"y.mask"});
  EXPECT_EQ(read_by_backward_of(pow, {"x"}), (Names{"x", "z"}));
}

TEST(ElementwiseBinary, SymbolsBroadcastOnlyWithThemselvesAndOne) {
  Builder b;
  const Dim batch = Dim::symbol("batch");
  const Value x = b.input("x", {DType::f32, {batch, 3}});
  const Value bias = b.input("bias", {DType::f32, {3}});
  EXPECT_EQ(b.type(add(b, x, bias)).text(), "f32[batch,3]");
  EXPECT_EQ(b.type(add(b, bias, x)).text(), "f32[batch,3]");
  EXPECT_EQ(
      error_of([&] {
        add(b, x, b.input("other", {DType::f32, {Dim::symbol("seq"), 3}}));
      }),
      "add %add: x is f32[batch,3], z is f32[seq,3]; dimension -2 of z is seq, another operand has batch there: to "
      "broadcast, sizes must be equal or 1");
}

TEST(ElementwiseBinary, RejectsWhatDoesNotFit) {
  Builder b;
  const Value x = b.input("x", {DType::f32, {3, 17}});
  const Value whole = b.input("whole", {DType::i64, {17}});
  EXPECT_EQ(
      error_of([&] {
        mul(b, x, b.input("z", {DType::f32, {3}}));
      }),
      "mul %mul: x is f32[3,17], z is f32[3]; dimension -1 of z is 3, another operand has 17 there: to broadcast, "
      "sizes must be equal or 1");
  EXPECT_EQ(error_of([&] { add(b, x, whole); }),
            "add %add: x is f32[3,17], z is i64[17]; x and z must have the same dtype");
  EXPECT_EQ(error_of([&] { div(b, whole, whole); }), "div %div: x is i64[17], z is i64[17]; x must be floating");
  EXPECT_EQ(error_of([&] { logical_not(b, whole); }), "logical_not %logical_not: x is i64[17]; x must be bool");
  EXPECT_EQ(error_of([&] { where(b, x, x, x); }),
            "where %where: condition is f32[3,17], x is f32[3,17], z is f32[3,17]; condition must be bool");
}

}  // namespace
}  // namespace plimsoll::program
