#include "plimsoll/program/ops/collective.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/gradient_sums.h"
#include "plimsoll/program/passes/sink_ops.h"
#include "plimsoll/program/spread_parameters.h"
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

TEST(Collective, ThatAreStartedGiveTheSame) {
  Builder b;
  const Value x = b.parameter("x", {DType::f32, {5}});
  const Value y = b.parameter("y", {DType::f32, {5}});
  const Value w = b.parameter("w", {DType::f32, {5}});
  collective_finish(b, {all_reduce_start(b, x, 2)}, 2);
  const Value scattered = collective_finish(b, reduce_scatter_start(b, y, 2), 2);
  b.output(scattered);
  collective_finish(b, all_gather_start(b, w, scattered, 2), 2);
  const Value gathered = collective_finish(b, gather_start(b, scattered, {5}, 2), 2);
  b.output(gathered);
  const Program program = std::move(b).finish();
  verify(program);
  Array<double> numbers({DType::f32, {5}});
  numbers.reals = {1, 2, 3, 4, 5};
  const auto found = evaluate<double>(program, {{"x", numbers}, {"y", numbers}, {"w", numbers}});
  EXPECT_EQ(found.after.at("x").reals, (std::vector<double>{2, 4, 6, 8, 10}));
  EXPECT_EQ(found.after.at("w").reals, (std::vector<double>{2, 4, 6, 2, 4}));
  EXPECT_EQ(found.outputs.at(program[gathered].name).reals, (std::vector<double>{2, 4, 6, 2, 4}));
  EXPECT_EQ(collectives(program), 4);
  EXPECT_EQ(sent_bytes(program), 2 * 10 + 3 * 10);
}

TEST(Collective, SumInFullPrecisionAlone) {
  Builder b;
  const Value half = b.parameter("half", {DType::bf16, {6}});
  EXPECT_THROW(all_reduce_start(b, half, 2), ArgumentError);
  EXPECT_THROW(reduce_scatter_start(b, half, 2), ArgumentError);
  EXPECT_EQ(b.shape(gather_start(b, own_shard(b, half, 2), {6}, 2).result), Dims{6});
  EXPECT_THROW(gather_start(b, half, {6}, 2), ArgumentError);
}

// Each rank's part of a pack has its shards one after another; what comes out is what went in.
TEST(Collective, PacksAreInTheOrderOfRanks) {
  Builder b;
  const Value x = b.parameter("x", {DType::f32, {5}});
  const Value y = b.parameter("y", {DType::f32, {2, 2}});
  const Value z = b.parameter("z", {DType::f32, {2, 2}});
  const std::vector<Value> both = {x, y};
  const Value pack = pack_shards(b, both, 2);
  b.output(pack);
  take_shards(b, z, pack, 3, 2);
  EXPECT_THROW(take_shards(b, x, pack, 3, 2), ArgumentError);
  const Program program = std::move(b).finish();
  verify(program);
  Array<double> five({DType::f32, {5}});
  five.reals = {1, 2, 3, 4, 5};
  Array<double> four({DType::f32, {2, 2}});
  four.reals = {6, 7, 8, 9};
  const auto found = evaluate<double>(program, {{"x", five}, {"y", four}, {"z", Array<double>({DType::f32, {2, 2}})}});
  EXPECT_EQ(found.outputs.at(program[pack].name).reals, (std::vector<double>{1, 2, 3, 6, 7, 4, 5, 0, 8, 9}));
  EXPECT_EQ(found.after.at("z").reals, four.reals);
}

// Both parameters have one gradient: it must not be summed over the ranks twice.
TEST(CollectiveStep, SharedGradientsAreReducedApart) {
  const Program model = parse_program(kTied);
  TrainOptions options;
  options.optimizer = Optimizer::sgd;
  options.ranks = 2;
  const Program step = training_step(model, model.find("loss"), options);
  verify(step);
  EXPECT_EQ(collectives(step), 1);  // of a pack of both
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
  EXPECT_EQ(collectives(step), 2);  // of packs of both
}

constexpr const char* kDeep = R"(input %x: f32[batch,64]
input %target: i64[batch]
parameter %a: f32[64,64]
parameter %a_bias: f32[64]
parameter %b: f32[64,64]
parameter %b_bias: f32[64]
parameter %c: f32[64,64]
%h = linear(%x, %a, %a_bias)
%r = relu(%h)
%i = linear(%r, %b, %b_bias)
%s = relu(%i)
%y = linear(%s, %c)
%loss = cross_entropy(%y, %target)
output %loss
)";

TrainOptions deep_options(Sharding sharding) {
  TrainOptions options;
  options.ranks = 2;
  options.sharding = sharding;
  options.bucket_bytes = 16384;
  return options;
}

size_t place_of(const Program& program, std::string_view op, size_t from = 0) {
  for (size_t i = from; i < program.ops.size(); ++i) {
    if (program.ops[i].def->name == op) return i;
  }
  return program.ops.size();
}

int64_t count_of(const Program& program, std::string_view op) {
  return std::count_if(program.ops.begin(), program.ops.end(), [&](const Op& one) { return one.def->name == op; });
}

// Weights go alone, biases together; the sum of the last layer's weights is under way while the others are made.
TEST(CollectiveStep, SumsStartWhereGradientsAreComplete) {
  const Program model = parse_program(kDeep);
  const Program step = training_step(model, model.find("loss"), deep_options(Sharding::none));
  verify(step);
  EXPECT_EQ(count_of(step, "all_reduce_start"), 4);
  EXPECT_EQ(count_of(step, "collective_finish"), 4);
  EXPECT_EQ(count_of(step, "pack_shards"), 1);
  const size_t start = place_of(step, "all_reduce_start");
  const size_t finish = place_of(step, "collective_finish");
  const auto is_backward = [](const Op& op) { return op.phase == Phase::backward; };
  const auto first = step.ops.begin();
  EXPECT_GT(std::count_if(first + static_cast<std::ptrdiff_t>(start), first + static_cast<std::ptrdiff_t>(finish),
                          is_backward),
            3);
}

TEST(CollectiveStep, SumsAreWaitedForAtOnceWhereTheyMustBe) {
  const Program model = parse_program(kDeep);
  TrainOptions options = deep_options(Sharding::none);
  options.overlap = false;
  const Program step = training_step(model, model.find("loss"), options);
  verify(step);
  EXPECT_EQ(count_of(step, "all_reduce"), 4);
  EXPECT_EQ(count_of(step, "collective_finish"), 0);
}

// Each parameter is gathered for the forward pass and for the backward pass, but the last, which both read on end. The
// state is of shards, and so is the parameter.
TEST(CollectiveStep, ParametersAreGatheredWhereTheyAreRead) {
  const Program model = parse_program(kDeep);
  for (const bool overlap : {true, false}) {
    TrainOptions options = deep_options(Sharding::parameters);
    options.overlap = overlap;
    const Program step = training_step(model, model.find("loss"), options);
    verify(step);
    EXPECT_EQ(step[step.find("b")].type.text(), "f32[2048]");
    EXPECT_EQ(step[step.find("b_bias")].type.text(), "f32[64]");  // too small to be spread
    EXPECT_EQ(step[step.find("optimizer.b.mean")].type.text(), "f32[2048]");
    EXPECT_EQ(whole_shape(step, step.find("b")), (Dims{64, 64}));
    EXPECT_EQ(whole_shape(step, step.find("b_bias")), std::nullopt);
    int64_t gathered = 0;
    for (const Op& op : step.ops) gathered += op.def->name == "gather_start" && op.inputs[0] == step.find("b") ? 1 : 0;
    EXPECT_EQ(gathered, 2);
    const size_t first = place_of(step, "collective_finish");
    EXPECT_EQ(place_of(step, "gather_start", first) == first + 1, overlap);  // ahead of its use
  }
}

// The step is that of one rank where all have the same operands.
TEST(CollectiveStep, IsThatOfOneRankInEverySharding) {
  const Program model = parse_program(kDeep);
  TrainOptions alone;
  alone.optimizer = Optimizer::momentum;
  const Program single = bind(training_step(model, model.find("loss"), alone), {{"batch", 3}});
  Arrays<double> given;
  const auto fill_in = [&](const Program& program) {
    for (const auto* list : {&program.inputs, &program.parameters, &program.state}) {
      for (const Value value : *list) {
        Array<double> array(program[value].type.spec());
        const std::string& name = program[value].name;
        const bool is_data = !name.starts_with("optimizer.");
        for (size_t i = 0; i < array.reals.size() && is_data; ++i) {
          array.reals[i] = 0.01 * static_cast<double>((i * 7 + name.size()) % 11);
        }
        given[name] = array;
      }
    }
    given["optimizer.rate"].reals = {0.5};
  };
  fill_in(single);
  const auto expected = evaluate<double>(single, given);
  for (const Sharding sharding : {Sharding::none, Sharding::optimizer, Sharding::gradients}) {
    for (const bool overlap : {true, false}) {
      TrainOptions options = deep_options(sharding);
      options.optimizer = Optimizer::momentum;
      options.overlap = overlap;
      const Program step = bind(training_step(model, model.find("loss"), options), {{"batch", 3}});
      fill_in(step);
      given["rank.weight"].reals = {0.5};
      const auto found = evaluate<double>(step, given);
      for (const char* name : {"a", "a_bias", "c"}) {
        // Rank 0 alone has its shard right: the others here have rank 0's.
        const size_t own = is_sharded(options) ? found.after.at(name).reals.size() / 2 : SIZE_MAX;
        for (size_t i = 0; i < std::min(own, found.after.at(name).reals.size()); ++i) {
          EXPECT_NEAR(found.after.at(name).reals[i], expected.after.at(name).reals[i], 1e-12) << name << i;
        }
      }
    }
  }
}

TEST(CollectiveStep, ShardingsHaveNames) {
  for (const Sharding sharding : {Sharding::none, Sharding::optimizer, Sharding::gradients, Sharding::parameters}) {
    EXPECT_EQ(try_parse_sharding(name(sharding)), sharding);
  }
  EXPECT_EQ(try_parse_sharding("all"), std::nullopt);
}

}  // namespace
}  // namespace plimsoll::program
