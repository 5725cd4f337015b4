#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "plimsoll/base/error.h"
#include "plimsoll/program/ops/conv.h"
#include "plimsoll/program/ops/index.h"
#include "plimsoll/program/ops/linear.h"
#include "plimsoll/program/ops/loss.h"
#include "plimsoll/program/ops/norm.h"
#include "plimsoll/run/eager/optimizer.h"
#include "tests/run/eager_fixture.h"

namespace plimsoll::eager {
namespace {

using program::Builder;
using program::Dims;
using program::Value;
using Floats = std::vector<float>;

TEST(Eager, ComputesWithOperators) {
  Workshop shop;
  const Tensor x = shop.context.from<float>({2, 2}, Floats{1, 2, 3, 4});
  const Tensor row = shop.context.from<float>({2}, Floats{10, 20});
  EXPECT_EQ((x + row).values<float>(), (Floats{11, 22, 13, 24}));
  EXPECT_EQ((x * x - x).values<float>(), (Floats{0, 2, 6, 12}));
  EXPECT_EQ(((x / x) * 3.0 + 1.0).values<float>(), (Floats{4, 4, 4, 4}));
  EXPECT_EQ((-x).relu().sum().item(), 0);
  EXPECT_EQ(x.matmul(x).values<float>(), (Floats{7, 10, 15, 22}));
  EXPECT_EQ(x.mean({0}).values<float>(), (Floats{2, 3}));
  EXPECT_EQ(x.max().item(), 4);
  EXPECT_FLOAT_EQ(x.softmax().values<float>()[1], 0.7310586F);
  EXPECT_EQ(x.cast(DType::i64).values<int64_t>(), (std::vector<int64_t>{1, 2, 3, 4}));
}

TEST(Eager, ShowsViewsWithoutMemory) {
  Workshop shop;
  const Tensor x = shop.context.from<float>({2, 3}, Floats{0, 1, 2, 3, 4, 5});
  const int64_t live = shop.live_bytes();
  const Tensor flat = x.reshape({-1});
  const Tensor transposed = x.transpose({1, 0});
  const Tensor odd = flat.slice(0, 1, {}, 2);
  const Tensor repeated = x.slice(0, 0, 1).expand({4, 3});
  EXPECT_EQ(shop.live_bytes(), live);
  EXPECT_EQ(transposed.values<float>(), (Floats{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(odd.values<float>(), (Floats{1, 3, 5}));
  x.data<float>()[1] = 7;
  EXPECT_EQ(flat.values<float>()[1], 7);
  EXPECT_EQ(odd.item(), 7);
  EXPECT_EQ(repeated.values<float>()[10], 7);
  EXPECT_TRUE(odd.shares_memory_with(x));
  EXPECT_FALSE(transposed.contiguous().shares_memory_with(x));
  EXPECT_EQ((transposed * transposed).values<float>()[2], 49);
  EXPECT_THROW(transposed.data<float>(), ArgumentError);
  EXPECT_THROW(x.data<double>(), ArgumentError);
}

TEST(Eager, GivesMemoryBackWithTheLastHandle) {
  Workshop shop;
  {
    Tensor x = ramp(shop.context, {100, 100});
    const Tensor last_row = x.slice(0, 99);
    x = {};
    EXPECT_EQ(shop.pool.stats().live_blocks, 1);
    x = last_row.exp();
    EXPECT_EQ(shop.pool.stats().live_blocks, 2);
  }
  EXPECT_EQ(shop.live_bytes(), 0);
}

TEST(Eager, KeepsOnlyWhatGradientsRead) {
  Workshop shop;
  Tensor x = ramp(shop.context, {1024, 1024}).require_grad();
  const int64_t megabyte = 1 << 20;
  Tensor y = (x + 1.0).relu();  // one bit for each element is kept
  EXPECT_EQ(shop.live_bytes(), 8 * megabyte + megabyte / 8);
  y = y.sum();
  EXPECT_EQ(shop.live_bytes(), 4 * megabyte + megabyte / 8 + 256);
  {
    const NoGrad no_grad(shop.context);
    const Tensor z = (x + 1.0).relu().sum();
    EXPECT_FALSE(z.requires_grad());
    EXPECT_EQ(shop.live_bytes(), 4 * megabyte + megabyte / 8 + 2 * 256);
  }
  y.backward();
  EXPECT_EQ(shop.live_bytes(), 8 * megabyte + 256);  // x, its gradient and the loss
}

TEST(Eager, AddsGradientsUp) {
  Workshop shop;
  Tensor w = shop.context.from<float>({2}, Floats{3, 5}).require_grad();
  const Tensor loss = (w * w + w).sum();
  loss.backward();
  EXPECT_EQ(w.grad().values<float>(), (Floats{7, 11}));
  (w * 2.0).sum().backward();
  EXPECT_EQ(w.grad().values<float>(), (Floats{9, 13}));
  w.clear_grad();
  EXPECT_FALSE(w.grad());
  w.detach().relu();
  (w * w).backward(shop.context.from<float>({2}, Floats{10, 100}));
  EXPECT_EQ(w.grad().values<float>(), (Floats{60, 1000}));
}

TEST(Eager, GivesEveryLeafAGradientOfItsOwn) {
  Workshop shop;
  Tensor a = ramp(shop.context, {3}).require_grad();
  Tensor b = ramp(shop.context, {3}).require_grad();
  (a + b).sum().backward();
  EXPECT_TRUE(a.grad().is_contiguous());
  EXPECT_FALSE(a.grad().shares_memory_with(b.grad()));
  a.grad().data<float>()[0] = 9;
  EXPECT_EQ(b.grad().item(), 1);
}

TEST(Eager, DifferentiatesOpsOfWhichSomeResultsAreUsed) {
  Workshop shop;
  Tensor x = ramp(shop.context, {6}).require_grad();
  const std::vector<Tensor> parts = apply_all("split", std::vector{x}, {{"axis", 0}, {"parts", 3}});
  (parts[0] * 2.0 + parts[2] * 3.0).sum().backward();
  EXPECT_EQ(x.grad().values<float>(), (Floats{2, 2, 0, 0, 3, 3}));
}

TEST(Eager, SaysWhatIsWrongWithABackwardPass) {
  Workshop shop;
  Tensor w = ramp(shop.context, {3}).require_grad();
  const auto error_of = [](const auto& f) -> std::string {
    try {
      f();
    } catch (const ArgumentError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of([&] { w.backward(); }), "backward of f32[3]: expected one element, or a seed");
  EXPECT_EQ(error_of([&] { w.detach().sum().backward(); }),
            "backward of f32[]: it depends on nothing that requires a gradient, or was made in a NoGrad scope");
  const Tensor loss = w.square().sum();
  loss.backward();
  EXPECT_EQ(error_of([&] { loss.backward(); }),
            "sum: its tape was used by an earlier backward pass; compute the loss again");
  EXPECT_EQ(error_of([&] {
              apply("sgd", {w, w.grad(), shop.context.full({DType::f32, {}}, 1)});
            }),
            "sgd: overwrites w, which requires a gradient; do it in a NoGrad scope");
  const Tensor late = w.square().sum();
  Sgd(shop.context, {w}, 0.1).step();
  EXPECT_EQ(error_of([&] { late.backward(); }),
            "square: its gradient reads f32[3] operand, which was overwritten since");
  EXPECT_EQ(error_of([&] {
              shop.context.full({DType::i64, {2}}, 1).require_grad();
            }),
            "i64[2] cannot require a gradient: only floating tensors have one");
}

TEST(Eager, SaysWhichOperandIsWrong) {
  Workshop shop;
  Workshop other;
  const Tensor x = ramp(shop.context, {2, 3});
  EXPECT_THROW(x.matmul(x), ArgumentError);
  EXPECT_THROW(x + Tensor(), ArgumentError);
  EXPECT_THROW(x + ramp(other.context, {2, 3}), ArgumentError);
  EXPECT_THROW(apply("add", {x}), ArgumentError);
  EXPECT_THROW(apply("no_such_op", {x}), ArgumentError);
  EXPECT_THROW(shop.context.from<float>({3}, Floats{1, 2}), ArgumentError);
  const Tensor index = shop.context.from<int64_t>({2}, std::vector<int64_t>{1, 5});
  try {
    call(program::embedding, x, index, int64_t{-1});
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(), "embedding %embedding: index 5 at place 1 is out of range, expected 0 to 1");
  }
  EXPECT_EQ(shop.pool.stats().live_blocks, 2);
}

TEST(Eager, CallsFunctionsOfPrograms) {
  Workshop shop;
  Tensor x = ramp(shop.context, {2, 3, 5, 5});
  Tensor w = ramp(shop.context, {4, 3, 3, 3}).require_grad();
  const Tensor y = call(program::conv, x, w, Tensor(), program::ConvOptions{.padding = {1}});
  EXPECT_EQ(y.shape(), Shape({2, 4, 5, 5}));
  const Tensor mean = shop.context.full({DType::f32, {4}}, 0);
  const Tensor variance = shop.context.full({DType::f32, {4}}, 1);
  const Tensor normal = call(
      [](Builder& b, Value in, Value running_mean, Value running_variance) {
        return program::batch_norm(b, in, {}, {}, {running_mean, running_variance});
      },
      y, mean, variance);
  EXPECT_NE(mean.item(), 0);  // the running statistics were overwritten
  normal.square().sum().backward();
  EXPECT_EQ(w.grad().shape(), w.shape());
}

TEST(Eager, BehavesAsIeeeSaysForNothingAndForInfinity) {
  Workshop shop;
  const Tensor none = shop.context.full({DType::f32, {0, 3}}, 1);
  EXPECT_EQ(none.relu().shape(), Shape({0, 3}));
  EXPECT_EQ(none.sum().item(), 0);
  EXPECT_TRUE(std::isnan(none.mean().item()));
  Tensor w = ramp(shop.context, {3, 2}).require_grad();
  none.matmul(w).sum().backward();
  EXPECT_EQ(w.grad().values<float>(), Floats(6, 0));
  const Tensor odd = shop.context.from<float>({3}, Floats{NAN, INFINITY, -INFINITY});
  EXPECT_TRUE(std::isnan(odd.relu().values<float>()[0]));
  EXPECT_TRUE(std::isnan(odd.max().item()));
  EXPECT_EQ(odd.relu().values<float>()[2], 0);
  EXPECT_EQ(odd.exp().values<float>()[1], INFINITY);
}

TEST(Eager, PreparesAKernelOnce) {
  Workshop shop;
  Tensor w = ramp(shop.context, {8, 8}).require_grad();
  const auto step = [&] {
    w.clear_grad();
    (ramp(shop.context, {4, 8}).matmul(w).gelu().square() * 0.5).sum().backward();
  };
  step();
  const int64_t prepared = shop.context.engine().prepared();
  for (int i = 0; i < 5; ++i) step();
  EXPECT_EQ(shop.context.engine().prepared(), prepared);
}

TEST(Eager, LetsGoOfLongTapes) {
  Workshop shop;
  Tensor x = ramp(shop.context, {1}).require_grad();
  Tensor y = x;
  for (int i = 0; i < 30000; ++i) y = y + 1.0;
  y = {};
  EXPECT_EQ(shop.pool.stats().live_blocks, 1);
}

TEST(Eager, LowersThePeakWhenToldToLetGoEarly) {
  const auto peak = [](bool early) {
    Workshop shop;
    Tensor y = ramp(shop.context, {128, 128}, 0.01F);
    std::vector<Tensor> weights;
    for (int i = 0; i < 8; ++i) {
      weights.push_back(ramp(shop.context, {128, 128}, 0.01F).require_grad());
      y = y.matmul(weights.back());
    }
    y.sum().backward({.let_go_early = early});
    return std::pair(shop.pool.stats().live_peak_bytes, weights[0].grad().values<float>());
  };
  EXPECT_EQ(peak(true).second, peak(false).second);
  EXPECT_GE(peak(false).first - peak(true).first, 6 * 128 * 128 * 4);  // whatever scratch a machine's products take
}

// A small net, its loss and a step of Adam, from the same start every time.
struct SmallNet {
  explicit SmallNet(Context& context)
      : x(ramp(context, {5, 7})),
        target(context.from<int64_t>({5}, std::vector<int64_t>{0, 2, 1, 0, 2})),
        w1(context.parameter("w1", {DType::f32, {6, 7}})),
        b1(context.parameter("b1", {DType::f32, {6}})),
        w2(context.parameter("w2", {DType::f32, {3, 6}})),
        adam(context, {w1, b1, w2}, {.rate = 0.1}) {
    for (const Tensor& w : {w1, w2}) std::ranges::copy(ramp(w.elements(), 0.07F), w.data<float>().begin());
  }

  float step() {
    adam.clear_grads();
    const Tensor hidden = call(program::linear, x, w1, b1).relu();
    const Tensor loss = call(program::cross_entropy, call(program::linear, hidden, w2, Tensor()), target,
                             program::CrossEntropyOptions{});
    loss.backward();
    adam.step();
    return loss.item();
  }

  std::vector<Floats> parameters() const { return {w1.values<float>(), b1.values<float>(), w2.values<float>()}; }

  Tensor x, target, w1, b1, w2;
  Adam adam;
};

TEST(Eager, LearnsTheSameBitsTwice) {
  std::vector<std::vector<Floats>> after;
  for (int run = 0; run < 2; ++run) {
    Workshop shop;
    SmallNet net(shop.context);
    const float first = net.step();
    for (int i = 0; i < 20; ++i) net.step();
    EXPECT_LT(net.step(), first / 4);
    after.push_back(net.parameters());
  }
  EXPECT_EQ(after[0], after[1]);
}

TEST(Eager, IsAsBeforeWhenAnyAllocationFails) {
  Workshop calm;
  SmallNet expected(calm.context);
  expected.step();
  const int64_t first = calm.allocations;
  expected.step();
  const int64_t of_a_step = calm.allocations - first;
  ASSERT_GT(of_a_step, 10);

  for (int64_t n = 1; n <= of_a_step; ++n) {
    Workshop shop;
    SmallNet net(shop.context);
    net.step();
    const std::vector<Floats> before = net.parameters();
    net.adam.clear_grads();
    const int64_t live = shop.live_bytes();
    shop.refused = shop.allocations + n;
    EXPECT_THROW(net.step(), ResourceExhausted) << n;
    EXPECT_EQ(net.parameters(), before) << n;
    net.adam.clear_grads();
    EXPECT_EQ(shop.live_bytes(), live) << n;
    net.step();
    EXPECT_EQ(net.parameters(), expected.parameters()) << n;
  }
}

TEST(Eager, BacksOutOfABackwardPassThatDoesNotFit) {
  Workshop shop;
  Tensor w = ramp(shop.context, {64, 64}).require_grad();
  const Tensor loss = w.matmul(w).tanh().sum();
  const int64_t live = shop.live_bytes();
  for (int64_t n = 1; n <= 30; ++n) {
    shop.refused = shop.allocations + n;
    try {
      loss.backward();
    } catch (const ResourceExhausted& error) {
      EXPECT_FALSE(w.grad());
      EXPECT_EQ(shop.live_bytes(), live);
      EXPECT_FALSE(error.report().op.empty());
      EXPECT_FALSE(error.report().tag.empty());
      continue;
    }
    EXPECT_GE(n, 4);
    break;
  }
  EXPECT_TRUE(w.grad());
}

TEST(Eager, ReportsWhoAskedAndWhoHolds) {
  Workshop shop(1 << 20);
  const Tensor w = shop.context.parameter("fc.weight", {DType::f32, {256, 512}});
  try {
    w.matmul(shop.context.full({DType::f32, {512, 512}}, 1));
    FAIL();
  } catch (const ResourceExhausted& error) {
    EXPECT_EQ(error.report().op, "fill");
    EXPECT_EQ(error.report().requested_bytes, 1 << 20);
    EXPECT_EQ(error.report().largest_live.at(0).tag, "fc.weight");
    EXPECT_EQ(error.report().largest_live.at(0).category, Category::parameter);
  }
  EXPECT_EQ(w.sum().item(), 0);
}

}  // namespace
}  // namespace plimsoll::eager
