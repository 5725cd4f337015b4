// Ops of several operands, element by element, which broadcast to the result.
#include "plimsoll/kernels/cuda/support/elements.h"

namespace plimsoll::kernels {
namespace {

KernelDef formula(const char* value, int operands, const char* taken = "") {
  const auto prepare = [=](const KernelCall& call) {
    return cuda::element_kernel(call, {.value = value, .taken = taken}, operands);
  };
  std::vector<int> inputs(static_cast<size_t>(operands));
  for (int i = 0; i < operands; ++i) inputs[static_cast<size_t>(i)] = i;
  return {prepare, any_layout, cuda::together(inputs, *taken == 0 ? std::vector{0} : std::vector{0, 1})};
}

Kernel keep_where(const KernelCall& call) {
  return cuda::element_kernel(call, {.value = call.op.flag("when") ? "x1 != 0 ? x0 : 0" : "x1 == 0 ? x0 : 0"}, 2);
}

}  // namespace

void register_elementwise_binary_cuda(KernelTable& table) {
  table.add("add", formula("x0 + x1", 2));
  table.add("sub", formula("x0 - x1", 2));
  table.add("mul", formula("x0 * x1", 2));
  table.add("div", formula("x0 / x1", 2));
  table.add("pow", formula("power(x0, x1)", 2));
  table.add("pow_backward_base", formula("x0 * (x2 == 0 ? 0 : x2 * power(x1, x2 - 1))", 3));
  table.add("pow_backward_exponent", formula("x0 * (x1 == 0 && x2 >= 0 ? 0 : power(x1, x2) * logf(x1))", 3));
  table.add("maximum", formula("x0 >= x1 || x0 != x0 ? x0 : x1", 2, "x0 >= x1 || x0 != x0"));
  table.add("minimum", formula("x0 <= x1 || x0 != x0 ? x0 : x1", 2, "x0 <= x1 || x0 != x0"));
  table.add("eq", formula("x0 == x1", 2));
  table.add("ne", formula("x0 != x1", 2));
  table.add("lt", formula("x0 < x1", 2));
  table.add("le", formula("x0 <= x1", 2));
  table.add("gt", formula("x0 > x1", 2));
  table.add("ge", formula("x0 >= x1", 2));
  table.add("logical_and", formula("x0 != 0 && x1 != 0", 2));
  table.add("logical_or", formula("x0 != 0 || x1 != 0", 2));
  table.add("logical_xor", formula("(x0 != 0) != (x1 != 0)", 2));
  table.add("logical_not", formula("x0 == 0", 1));
  table.add("where", formula("x0 != 0 ? x1 : x2", 3));
  table.add("keep_where", {keep_where, any_layout});
}

}  // namespace plimsoll::kernels
