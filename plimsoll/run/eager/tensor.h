// Eager tensors: ops run as they are called, in memory of a pool under a budget.
//
//   Pool pool(pages, {512 * kMiB, "--budget"}, recorder);
//   eager::Context context(pool);
//   Tensor w = context.parameter("w", {DType::f32, {10, 29}});
//   Tensor loss = eager::call(program::mse_loss, eager::call(program::linear, x, w), target);
//   loss.backward();
//   .. w.grad() ..
//
// A Tensor is a handle: copies are the same tensor. Its memory goes back to the pool with the last handle, and the last
// view, and the last tape that reads it. Views (reshape, transpose, slice, expand) share memory; what is written
// through one is seen through all.
//
// Ops, shape rules, gradient rules and kernels are those of programs (plimsoll/program/ops): `apply` runs any op of the
// table by its name, `call` any typed function of ops/<family>.h, operators and methods are short for the common ones.
//
// Errors are those of ops (ArgumentError, UnsupportedError) and ResourceExhausted. Whatever fails has changed nothing.
// Not thread-safe. Tensors must go before their context, the context before its pool.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "plimsoll/program/builder.h"
#include "plimsoll/run/eager/tape.h"

namespace plimsoll::eager {

class Context;

class Tensor {
 public:
  Tensor() = default;  // none
  Tensor(Context& context, std::shared_ptr<TensorState> state) : context_(&context), state_(std::move(state)) {}

  explicit operator bool() const { return state_ != nullptr; }
  Context& context() const { return *context_; }
  const std::shared_ptr<TensorState>& state() const { return state_; }

  DType dtype() const { return desc().dtype; }
  const Shape& shape() const { return desc().shape; }
  TensorSpec spec() const { return {dtype(), shape()}; }
  int64_t elements() const { return desc().elements(); }
  bool is_contiguous() const { return desc().is_contiguous(); }
  bool shares_memory_with(const Tensor& other) const { return state_->data.storage == other.state_->data.storage; }

  // The elements in place, to read and to write. T must be of the size of an element and the tensor contiguous;
  // ArgumentError otherwise.
  template <class T>
  std::span<T> data() const {
    return {reinterpret_cast<T*>(checked_data(sizeof(T))), static_cast<size_t>(elements())};
  }
  // A copy of the elements in row-major order, however they lie.
  template <class T>
  std::vector<T> values() const {
    std::vector<T> copy(static_cast<size_t>(elements()));
    copy_to(reinterpret_cast<std::byte*>(copy.data()), sizeof(T));
    return copy;
  }
  // The only element.
  template <class T = float>
  T item() const {
    return values<T>().at(0);
  }

  // A leaf whose gradient backward() adds to grad(). Floating only.
  Tensor& require_grad();
  bool requires_grad() const { return state_->requires_grad; }
  Tensor grad() const;  // none before the first backward pass
  void clear_grad() { state_->gradient = {}; }
  // The same elements, of which no gradient is asked.
  Tensor detach() const;

  // Adds the gradients of this tensor, which has one element, to all leaves that it depends on.
  void backward(const BackwardOptions& options = {}) const;
  // The gradients of sum(this * seed).
  void backward(const Tensor& seed, const BackwardOptions& options = {}) const;

  // Ops of one operand, as in program/ops.
  Tensor relu() const;
  Tensor gelu() const;
  Tensor silu() const;
  Tensor sigmoid() const;
  Tensor tanh() const;
  Tensor exp() const;
  Tensor log() const;
  Tensor sqrt() const;
  Tensor square() const;
  Tensor abs() const;
  Tensor softmax(int axis = -1) const;
  Tensor log_softmax(int axis = -1) const;
  Tensor sum(const program::Dims& axes = {}, bool keepdims = false) const;
  Tensor mean(const program::Dims& axes = {}, bool keepdims = false) const;
  Tensor max(const program::Dims& axes = {}, bool keepdims = false) const;
  Tensor reshape(const program::Dims& shape) const;  // one size may be -1
  Tensor transpose(const program::Dims& axes) const;
  Tensor expand(const program::Dims& shape) const;
  // x[start:end:step] along a dimension, as Python means it.
  Tensor slice(int axis, int64_t start, std::optional<int64_t> end = {}, int64_t step = 1) const;
  Tensor cast(DType dtype) const;
  Tensor contiguous() const;  // this when it is, else a copy
  Tensor matmul(const Tensor& other) const;

 private:
  const kernels::TensorDesc& desc() const { return state_->data.desc; }
  std::byte* checked_data(size_t element_size) const;
  void copy_to(std::byte* to, size_t element_size) const;

  Context* context_ = nullptr;
  std::shared_ptr<TensorState> state_;
};

// Runs an op of the table by its name and returns its results but the optional ones.
std::vector<Tensor> apply_all(std::string_view op, std::span<const Tensor> operands,
                              std::initializer_list<program::NamedAttribute> attributes = {});
// Its first result.
Tensor apply(std::string_view op, std::initializer_list<Tensor> operands,
             std::initializer_list<program::NamedAttribute> attributes = {});

Tensor operator+(const Tensor& x, const Tensor& z);  // with broadcasting, all four
Tensor operator-(const Tensor& x, const Tensor& z);
Tensor operator*(const Tensor& x, const Tensor& z);
Tensor operator/(const Tensor& x, const Tensor& z);
Tensor operator-(const Tensor& x);
Tensor operator+(const Tensor& x, double shift);
Tensor operator-(const Tensor& x, double shift);
Tensor operator*(const Tensor& x, double scale);
Tensor operator/(const Tensor& x, double divisor);

// The ops that a function of program/ops emits, before they run.
class Sketch {
 public:
  program::Builder& builder() { return builder_; }

  program::Value operand(const Tensor& tensor);  // nothing for none
  template <class T>
  const T& operand(const T& option) {
    return option;
  }

  Tensor run(program::Value result);

 private:
  program::Builder builder_;
  std::vector<Tensor> operands_;  // of the builder's inputs
};

// Runs a typed function of program/ops, such as `conv`, on tensors: call(program::conv, x, w, bias, ConvOptions{..}).
// Tensors stand for its Values; all arguments are given.
template <class F, class... Arguments>
Tensor call(const F& function, const Arguments&... arguments) {
  Sketch sketch;
  const program::Value result = function(sketch.builder(), sketch.operand(arguments)...);
  return sketch.run(result);
}

}  // namespace plimsoll::eager
