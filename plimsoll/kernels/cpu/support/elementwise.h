// Kernels of element-wise ops with one operand, from formulas in f32. The wrapper for f16 and bf16 (upcast_wrapper.h)
// and the loops over layouts and threads come with them.
#pragma once

#include <string>

#include "plimsoll/kernels/cpu/support/map.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {

// Element by element, so in any order that is the same for all.
inline const Blocking kUnary{.rule = Blocking::Rule::together, .inputs = {0}, .outputs = {0}};
inline const Blocking kBackward{.rule = Blocking::Rule::together, .inputs = {0, 1}, .outputs = {0}};

// y = f(x)
template <class F>
void unary(KernelTable& table, const std::string& op, F f) {
  table.add(op, {[f](const KernelCall& call) { return map_kernel(call, f); }, contiguous_only, kUnary, by_elements});
}

// dx = dy * slope(v), v what the backward op reads
template <class F>
void backward(KernelTable& table, const std::string& op, F slope) {
  const auto times = [slope](float dy, float v) { return dy * slope(v); };
  table.add(op, {[times](const KernelCall& call) { return map2_kernel(call, times); }, contiguous_only, kBackward,
                 by_elements});
}

// Both, for an op of program/ops/elementwise.h.
template <class F, class G>
void add_elementwise(KernelTable& table, const std::string& op, F f, G slope) {
  unary(table, op, f);
  backward(table, op + "_backward", slope);
}

}  // namespace plimsoll::kernels
