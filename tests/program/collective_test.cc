#include "plimsoll/program/ops/collective.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/passes/sink_ops.h"
#include "plimsoll/program/text.h"
#include "plimsoll/program/train_step.h"
#include "plimsoll/program/verify.h"

namespace plimsoll::program {
namespace {

TEST(Collective, ShardsHaveTheShapeOfAPart) {
  for (const auto& [elements, ranks, expected] :
       {std::tuple{7, 1, 7}, {7, 2, 4}, {7, 3, 3}, {7, 4, 2}, {7, 16, 1}, {8, 4, 2}}) {
    Builder b;
    const Value x = b.parameter("x", {DType::f32, {elements}});
    EXPECT_EQ(b.shape(own_shard(b, x, ranks)), Dims{expected});
    EXPECT_EQ(b.shape(reduce_scatter(b, x, ranks)), Dims{expected});
  }
  Builder b;
  EXPECT_EQ(b.shape(own_shard(b, b.parameter("w", {DType::bf16, {3, 5, 2}}), 4)), Dims{8});
}

TEST(Collective, RefuseOperandsThatMakeNoSense) {
  Builder b;
  const Value x = b.parameter("x", {DType::f32, {7}});
  const Value batch = b.input("batch", {DType::f32, {Dim::symbol("batch")}});
  const Value whole = b.input("whole", {DType::i64, {4}});
  EXPECT_THROW(all_reduce(b, x, 0), ArgumentError);
  EXPECT_THROW(all_reduce(b, whole, 2), ArgumentError);
  EXPECT_THROW(reduce_scatter(b, batch, 2), ArgumentError);
  EXPECT_THROW(broadcast(b, x, 2, 2), ArgumentError);
  EXPECT_THROW(all_gather(b, x, own_shard(b, x, 2), 3), ArgumentError);
}

TEST(Collective, AreWhatRankZeroHasOfEqualOperands) {
  Builder b;
  const Value x = b.parameter("x", {DType::f32, {5}});
  const Value w = b.parameter("w", {DType::f32, {5}});
  const Value shard = own_shard(b, w, 2);
  b.output(shard);
  const Value scattered = reduce_scatter(b, x, 2);
  b.output(all_gather(b, w, scattered, 2));
  const Program program = std::move(b).finish();
  verify(program);
  Array<double> numbers({DType::f32, {5}});
  numbers.reals = {1, 2, 3, 4, 5};
  const auto found = evaluate<double>(program, {{"x", numbers}, {"w", numbers}});
  EXPECT_EQ(found.outputs.at(program[shard].name).reals, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(found.after.at("w").reals, (std::vector<double>{2, 4, 6, 2, 4}));
}

TEST(Collective, CountWhatARankSends) {
  Builder b;
  const Value x = b.parameter("x", {DType::f32, {1000}});
  b.output(all_reduce(b, x, 4));
  const Program program = std::move(b).finish();
  EXPECT_EQ(collectives(program), 1);
  EXPECT_EQ(sent_bytes(program), 6000);
  EXPECT_EQ(collectives_text(program), "all_reduce f32[1000]\n");
}

constexpr const char* kTied = R"(input %x: f32[batch,4]
input %target: i64[batch]
parameter %a: f32[3,4]
parameter %b: f32[3,4]
%w = add(%a, %b)
%y = linear(%x, %w)
%loss = cross_entropy(%y, %target)
output %loss
)";

// Both parameters have one gradient: it must not be summed over the ranks twice.
TEST(CollectiveStep, SharedGradientsAreReducedApart) {
  const Program model = parse_program(kTied);
  TrainOptions options;
  options.optimizer = Optimizer::sgd;
  options.ranks = 2;
  const Program step = training_step(model, model.find("loss"), options);
  verify(step);
  EXPECT_EQ(collectives(step), 2);
  Arrays<double> given;
  const auto add = [&](const char* name, const Shape& shape, double scale) {
    Array<double> array({DType::f32, shape});
    for (size_t i = 0; i < array.reals.size(); ++i) array.reals[i] = scale * static_cast<double>(i % 5);
    given[name] = array;
  };
  add("x", {2, 4}, 0.3);
  add("a", {3, 4}, 0.1);
  add("b", {3, 4}, -0.2);
  add("rank.weight", {}, 0);
  add("optimizer.rate", {}, 0);
  given["rank.weight"].reals = {0.5};
  given["optimizer.rate"].reals = {1};
  given["target"] = Array<double>({DType::i64, {2}});
  const Program bound = bind(step, {{"batch", 2}});
  const auto two = evaluate<double>(bound, given);
  TrainOptions alone;
  alone.optimizer = Optimizer::sgd;
  const Program single = bind(training_step(model, model.find("loss"), alone), {{"batch", 2}});
  given.erase("rank.weight");
  const auto one = evaluate<double>(single, given);
  for (const char* name : {"a", "b"}) {
    for (size_t i = 0; i < 12; ++i) {
      EXPECT_NEAR(two.after.at(name).reals[i], one.after.at(name).reals[i], 1e-12) << name << i;
    }
  }
}

TEST(CollectiveStep, OrderStaysWhereOpsSink) {
  const Program model = parse_program(kTied);
  TrainOptions options;
  options.ranks = 3;
  options.sharding = Sharding::optimizer;
  const Program step = bind(training_step(model, model.find("loss"), options), {{"batch", 2}});
  EXPECT_EQ(collectives_text(sink_ops(step)), collectives_text(step));
  EXPECT_EQ(collectives(step), 4);
}

TEST(CollectiveStep, ShardingsHaveNames) {
  for (const Sharding sharding : {Sharding::none, Sharding::optimizer, Sharding::gradients}) {
    EXPECT_EQ(try_parse_sharding(name(sharding)), sharding);
  }
  EXPECT_EQ(try_parse_sharding("all"), std::nullopt);
}

}  // namespace
}  // namespace plimsoll::program
