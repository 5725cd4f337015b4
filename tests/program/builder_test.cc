#include "plimsoll/program/builder.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/matmul.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/text.h"
#include "plimsoll/program/verify.h"

namespace plimsoll::program {
namespace {

const Type kType{DType::f32, {3}};

TEST(Builder, NamesAreUniqueAndScoped) {
  Builder b;
  const Value x = b.input("x", kType);
  const Value first = relu(b, x);
  Value second;
  {
    const Scope outer(b, "layer1");
    const Scope inner(b, "0");
    b.parameter("w", kType);
    relu(b, x);
    second = relu(b, x);
  }
  const Value third = relu(b, x);
  EXPECT_EQ(b.program()[first].name, "relu");
  EXPECT_EQ(b.program()[second].name, "layer1.0.relu_2");
  EXPECT_EQ(b.program()[third].name, "relu_2");
  EXPECT_TRUE(b.program().find("layer1.0.w"));
}

TEST(Builder, RejectsTakenAndMalformedNames) {
  Builder b;
  b.input("x", kType);
  EXPECT_THROW(b.parameter("x", kType), ArgumentError);
  EXPECT_THROW(b.input("a b", kType), ArgumentError);
  EXPECT_THROW(b.input("", kType), ArgumentError);
}

TEST(Builder, RejectsWrongOperandsAndAttributes) {
  Builder b;
  const Value x = b.input("x", kType);
  EXPECT_THROW(b.emit("relu", {x, x}), ArgumentError);
  EXPECT_THROW(b.emit("relu", {Value{}}), ArgumentError);
  EXPECT_THROW(b.emit("rleu", {x}), ArgumentError);
  EXPECT_THROW(b.emit("relu", {x}, {{"axis", 1}}), ArgumentError);
  EXPECT_THROW(b.emit("reshape", {x}), ArgumentError);
  EXPECT_THROW(b.emit("reshape", {x}, {{"shape", 3}}), ArgumentError);
  EXPECT_TRUE(b.program().ops.empty());
}

TEST(Builder, GoesOnWithAProgram) {
  Builder b(parse_program("input %relu: f32[3]"));
  const Value y = relu(b, b.program().inputs[0]);
  EXPECT_EQ(b.program()[y].name, "relu_2");
}

Program symbolic() {
  Builder b;
  const Dim batch = Dim::symbol("batch");
  const Value x = b.input("x", {DType::f32, {batch, 2, 3}});
  b.output(relu(b, transpose(b, reshape(b, x, {batch * 2, 3}), {1, 0})));
  return std::move(b).finish();
}

TEST(Bind, GivesConstantsEverywhere) {
  const Program program = bind(symbolic(), {{"batch", 5}});
  EXPECT_NO_THROW(verify_bound(program));
  EXPECT_EQ(write_program(program),
            "input %x: f32[5,2,3]\n%reshape: f32[10,3] = reshape(%x) {shape=[10,3]}\n"
            "%transpose: f32[3,10] = transpose(%reshape) {axes=[1,0]}\n%relu: f32[3,10] = relu(%transpose)\n"
            "output %relu\n");
}

TEST(Bind, ZeroIsASize) { EXPECT_NO_THROW(verify_bound(bind(symbolic(), {{"batch", 0}}))); }

TEST(Bind, RejectsUnknownSymbolsAndNegativeSizes) {
  EXPECT_THROW(bind(symbolic(), {{"btach", 5}}), ArgumentError);
  EXPECT_THROW(bind(symbolic(), {{"batch", -1}}), ArgumentError);
  const Program shorter = parse_program("input %x: f32[seq-2]");
  EXPECT_THROW(bind(shorter, {{"seq", 1}}), ArgumentError);
}

TEST(Evaluate, NamesTheArrayThatIsMissingOrWrong) {
  const Program program = bind(symbolic(), {{"batch", 1}});
  EXPECT_THROW(evaluate<double>(program, {}), ArgumentError);
  EXPECT_THROW(evaluate<double>(program, {{"x", Array<double>(TensorSpec{DType::f32, {1, 2}})}}), ArgumentError);
  EXPECT_THROW(evaluate<double>(symbolic(), {}), ArgumentError);
}

TEST(OpTable, EveryOpHasAReferenceAndAWellFormedSchema) {
  for (const OpDef& def : op_table().all()) {
    EXPECT_TRUE(def.reference_f64 && def.reference_f32) << def.name;
    for (const AttributeSpec& spec : def.attributes) {
      EXPECT_TRUE(!spec.fallback || spec.fallback->fits(spec.kind)) << def.name << " " << spec.name;
    }
  }
}

}  // namespace
}  // namespace plimsoll::program
