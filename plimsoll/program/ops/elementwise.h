// Element-wise ops with one operand, each said once: two formulas give the op, its backward op, the gradient and the
// values of both. `docs/program.md` adds one.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "plimsoll/program/evaluate.h"

namespace plimsoll::program {

enum class SlopeReads : uint8_t { input, output };

struct Elementwise {
  std::string name;
  SlopeReads reads = SlopeReads::input;  // what the slope is a function of: kept until the backward pass
  std::vector<AttributeSpec> attributes = {};
  std::vector<Type> (*infer)(const OpCall&) = nullptr;  // nothing: any floating x
  Sign sign = Sign::any;
};

// The definitions of `name(x)` and `name_backward(dy, x or y)`, without values.
void define_elementwise(OpTable& table, const Elementwise& op);

// y = f(x) and dx = dy * slope(v), v what the slope reads. Formulas are called with double and with float, and with
// int64_t where `kIntegers`: `[](auto x) { .. }`, or `[](auto x, const OpCall& call) { .. }` for attributes.
template <bool kIntegers = false, class F, class G>
void add_elementwise(OpTable& table, const Elementwise& op, F f, G slope) {
  define_elementwise(table, op);
  const auto at = [](const auto& formula, auto x, const OpCall& call) {
    if constexpr (std::is_invocable_v<decltype(formula), decltype(x)>) {
      return formula(x);
    } else {
      return formula(x, call);
    }
  };
  table.reference(op.name, [=](auto& run) {
    for (size_t i = 0; i < run.reals(0).size(); ++i) run.out().reals[i] = at(f, run.reals(0)[i], run.call);
    if constexpr (kIntegers) {
      for (size_t i = 0; i < run.ints(0).size(); ++i) run.out().ints[i] = at(f, run.ints(0)[i], run.call);
    }
  });
  table.reference(op.name + "_backward", [=](auto& run) {
    for (size_t i = 0; i < run.reals(0).size(); ++i) {
      run.out().reals[i] = run.reals(0)[i] * at(slope, run.reals(1)[i], run.call);
    }
  });
}

}  // namespace plimsoll::program
