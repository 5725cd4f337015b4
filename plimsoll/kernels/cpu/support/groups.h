// The elements of a tensor in groups: those that become one when some dimensions are reduced.
#pragma once

#include <algorithm>
#include <numeric>

#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/support/rows.h"
#include "plimsoll/kernels/tiling.h"
#include "plimsoll/program/shape_rules.h"

namespace plimsoll::kernels {

// Some dimensions of a tensor, as a tensor.
inline TensorDesc pick(const TensorDesc& tensor, program::AxisSet axes, bool in_set) {
  std::vector<int64_t> dims;
  TensorDesc picked{tensor.dtype, {}, {}};
  for (int axis = 0; axis < tensor.shape.rank(); ++axis) {
    if (axes.test(static_cast<size_t>(axis)) != in_set) continue;
    picked.strides[dims.size()] = tensor.stride(axis);
    dims.push_back(tensor.shape[axis]);
  }
  picked.shape = Shape(dims);
  return picked;
}

// The axes of a reduction, or of its gradient: operand 0 or result 0 has the dimensions that are reduced.
inline program::AxisSet axes_of(const KernelCall& call) {
  return program::reduced_axes(call.op, std::max(call.in(0).shape.rank(), call.out().shape.rank()));
}

// Reductions and their gradients by rows, which all their operands and results have, unless rows are what is reduced.
inline Tiling by_kept_rows(const KernelCall& call) {
  const bool has_rows = call.in(0).shape.rank() > 0 && call.out().shape.rank() > 0;
  if (!has_rows || axes_of(call).test(0)) return {};
  const auto all = [](const std::vector<TensorDesc>& tensors) {
    std::vector<int> places(tensors.size());
    std::iota(places.begin(), places.end(), 0);
    return places;
  };
  return by_rows(call, all(call.inputs), all(call.outputs));
}

class Groups {
 public:
  Groups(const TensorDesc& tensor, program::AxisSet axes)
      : kept_(pick(tensor, axes, false).shape, {pick(tensor, axes, false)}),
        reduced_(pick(tensor, axes, true).shape, {pick(tensor, axes, true)}),
        count_(pick(tensor, axes, false).elements()),
        terms_(pick(tensor, axes, true).elements()) {}

  int64_t count() const { return count_; }
  int64_t terms() const { return terms_; }                         // of each group
  int64_t grain() const { return kGrain / (terms_ + 1) + 1; }      // groups that are worth a thread
  int64_t start(int64_t group) const { return at(kept_, group); }  // where its first element lies
  int64_t term(int64_t number) const { return at(reduced_, number); }

  // Calls f(where a term lies after the first of its group), in row-major order.
  template <class F>
  void for_each_term(const F& f) const {
    if (terms_ == 0) return;
    for (int64_t row = 0; row < reduced_.count(); ++row) {
      int64_t at = reduced_.offsets(row)[0];
      for (int64_t i = 0; i < reduced_.length(); ++i, at += reduced_.step(0)) f(at);
    }
  }
  template <class F>
  void for_each_term_backwards(const F& f) const {
    for (int64_t number = terms_; number-- > 0;) f(term(number));
  }

 private:
  static int64_t at(const Rows<1>& rows, int64_t number) {
    return rows.offsets(number / rows.length())[0] + number % rows.length() * rows.step(0);
  }

  Rows<1> kept_;
  Rows<1> reduced_;
  int64_t count_;
  int64_t terms_;
};

}  // namespace plimsoll::kernels
