// What eager tensors live in: the engine over a pool, and whether ops are remembered for gradients.
#pragma once

#include "plimsoll/run/eager/eviction.h"
#include "plimsoll/run/eager/tensor.h"

namespace plimsoll::eager {

class Context {
 public:
  // As Engine's. The pool must outlive the context, the context its tensors.
  explicit Context(Pool& pool, EngineOptions options = {});
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Tensors that no op makes. The elements of `empty` are whatever the memory held.
  Tensor empty(const TensorSpec& spec, std::string_view name = "tensor", Category category = Category::input);
  Tensor zeros(const TensorSpec& spec, std::string_view name = "tensor", Category category = Category::input);
  Tensor full(const TensorSpec& spec, double value);
  // A leaf that requires a gradient, zero at first.
  Tensor parameter(std::string_view name, const TensorSpec& spec);
  // T is float, double, int64_t, int32_t, uint8_t; for others, `empty` and data().
  template <class T>
  Tensor from(const Shape& shape, std::span<const T> values);
  template <class T>
  Tensor from(const Shape& shape, const std::vector<T>& values) {
    return from(shape, std::span<const T>(values));
  }

  // Runs an op and remembers it when gradients are recorded and an operand requires one. `asked` says which results are
  // wanted; nothing: all but the optional ones. Results that are not wanted are none.
  std::vector<Tensor> apply(const program::OpDef& def, const std::vector<program::Attribute>& attributes,
                            std::span<const Tensor> operands, const std::vector<bool>& asked = {});

  void backward(const Tensor& root, const Tensor& seed, const BackwardOptions& options);

  bool records() const { return no_grad_ == 0; }
  Engine& engine() { return engine_; }
  // From now on, what is let go of when the pool is short may go to a file in this folder: where that is faster than
  // computing it again, and where nothing else can be done. SystemError when the folder cannot hold one.
  void spill_to(const std::string& folder) { evictor_->spill_to(std::make_shared<SpillStore>(folder)); }
  int64_t spills() const { return evictor_->spills(); }  // blocks that went to the file

  int64_t evictions() const { return evictor_->evictions(); }  // blocks that were let go to be computed again
  Pool& pool() const { return engine_.pool(); }

 private:
  friend class NoGrad;

  Tensor copied(const TensorSpec& spec, size_t given, const std::byte* from);
  void prepare_to_overwrite(const program::OpDef& def, std::span<const Tensor> operands);
  bool is_recorded(const program::OpDef& def, std::span<const Tensor> operands) const;
  Tensor result_of(const program::OpDef& def, Data data, const std::shared_ptr<Record>& record, size_t k);

  Engine engine_;
  RecipeBook recipes_;
  std::shared_ptr<Evictor> evictor_ = std::make_shared<Evictor>();
  int no_grad_ = 0;
  uint64_t records_produced_ = 0;
};

// While it lives, ops are not remembered: for inference and for updates.
class NoGrad {
 public:
  explicit NoGrad(Context& context) : context_(context) { ++context_.no_grad_; }
  ~NoGrad() { --context_.no_grad_; }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  Context& context_;
};

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, int64_t>) return DType::i64;
  if constexpr (std::is_same_v<T, int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::u8;
}

template <class T>
Tensor Context::from(const Shape& shape, std::span<const T> values) {
  return copied({dtype_of<T>(), shape}, values.size(), reinterpret_cast<const std::byte*>(values.data()));
}

}  // namespace plimsoll::eager
