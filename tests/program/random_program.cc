#include "random_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "plimsoll/program/ops/constant.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/linear.h"
#include "plimsoll/program/ops/matmul.h"
#include "plimsoll/program/ops/reduce.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/train_step.h"

namespace plimsoll::program {
namespace {

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {
    values_ = {b_.input("x", {DType::f32, {3, 4}}), b_.parameter("p", {DType::f32, {3, 4}})};
  }

  Program make(bool training) && {
    for (int i = 0; i < 24; ++i) values_.push_back(next());
    if (!training) {
      for (int i = 0; i < 3; ++i) add_output(any());
      return std::move(b_).finish();
    }
    const Value loss = mean(b_, mul(b_, flat(values_.back()), flat(add_parameter(any()))));
    return training_step(std::move(b_).finish(), loss, {.optimizer = Optimizer::sgd});
  }

 private:
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  Value any() { return values_[static_cast<size_t>(below(static_cast<int>(values_.size())))]; }
  Value recent() { return values_[values_.size() - 1 - static_cast<size_t>(below(2))]; }
  Value flat(Value x) { return reshape(b_, x, {12}); }
  // So that the loss depends on a parameter.
  Value add_parameter(Value x) { return add(b_, flat(x), flat(values_[1])); }

  void add_output(Value value) {
    const auto& outputs = b_.program().outputs;
    if (std::find(outputs.begin(), outputs.end(), value) == outputs.end()) b_.output(value);
  }

  // All values have 12 elements, so every two can be brought together.
  Value next() {
    const Value x = below(3) == 0 ? any() : recent();
    switch (below(12)) {
      case 0:
        return tanh(b_, x);
      case 1:
        return relu(b_, x);
      case 2:
        return below(2) == 0 ? mul(b_, x, constant(x)) : div(b_, x, constant(x));
      case 3:
        return below(2) == 0 ? add(b_, constant(x), x) : sub(b_, constant(x), x);
      case 4:
        return identity(b_, x);
      case 5:
        return cast(b_, x, DType::f32);
      case 6:
      case 7:
        return reshape(b_, x, shapes_[static_cast<size_t>(below(4))]);
      case 8:
        return transposed(x);
      case 9:
        return add(b_, x, reshape(b_, any(), Dims(b_.shape(x))));
      case 10:
        return mul(b_, sqrt(b_, constant(x)), x);
      default:
        return product(x);
    }
  }

  Value constant(Value like) {
    const double value = 0.5 * (1 + below(6));
    const Dims shape = b_.shape(like);
    if (below(2) == 0) return fill(b_, value, {DType::f32, {}});
    return expand(b_, fill(b_, value, {DType::f32, {1}}), shape);
  }

  Value transposed(Value x) {
    Dims axes;
    for (int i = b_.shape(x).rank(); i-- > 0;) axes.push_back(i);
    return transpose(b_, x, axes);
  }

  // Of a 3x4 matrix with a 4x4 one, perhaps with something after it.
  Value product(Value x) {
    x = reshape(b_, x, {3, 4});
    const Value w = b_.parameter(fmt::format("w{}", parameters_++), {DType::f32, {4, 4}});
    Value y = below(2) == 0 ? linear(b_, x, w) : matmul(b_, x, w, {.transpose_b = below(2) == 0});
    if (below(2) == 0) y = add(b_, y, b_.parameter(fmt::format("w{}", parameters_++), {DType::f32, {4}}));
    if (below(2) == 0) y = add(b_, reshape(b_, any(), {3, 4}), y);
    return below(2) == 0 ? relu(b_, y) : affine(b_, y, {.scale = 0.25});
  }

  std::mt19937_64 random_;
  Builder b_;
  std::vector<Value> values_;
  std::vector<Dims> shapes_ = {{12}, {3, 4}, {2, 6}, {2, 2, 3}};
  int parameters_ = 0;
};

}  // namespace

Program random_program(uint64_t seed, bool training) { return Generator(seed).make(training); }

}  // namespace plimsoll::program
