#include "plimsoll/kernels/cuda/support/elements.h"

#include <fmt/format.h>

namespace plimsoll::kernels::cuda {
namespace {

// 0 as y lies, 1 one element for all, 2 otherwise.
int kind_of(const Walk& walk) {
  if (walk.rank == 0 || (walk.rank == 1 && walk.stride[0] == 0)) return walk.rank == 0 ? 0 : 1;
  return walk.rank == 1 && walk.stride[0] == 1 ? 0 : 2;
}

Walk walk_in(const TensorDesc& term, const TensorDesc& y) {
  return term.is_channels_last() ? straight(y.elements()) : walk_of(term, y.shape);
}

}  // namespace

Launch element_launch(const Formula& formula, const std::vector<Term>& terms, const TensorDesc& y, At to, At mask) {
  Launch launch{"elementwise"};
  launch.defines.set("OPERANDS", std::to_string(terms.size())).set("OUT", y.dtype).set("EXPR", formula.value);
  std::array<Walk, 3> walks;
  std::array<At, 3> places;
  for (size_t i = 0; i < terms.size(); ++i) {
    walks[i] = walk_in(terms[i].tensor, y);
    places[i] = terms[i].at;
    launch.defines.set(fmt::format("T{}", i), terms[i].tensor.dtype);
    launch.defines.set(fmt::format("KIND{}", i), std::to_string(kind_of(walks[i])));
  }
  if (!formula.taken.empty()) launch.defines.set("MASK_OUT").set("TAKEN", formula.taken);
  if (formula.reads_mask) launch.defines.set("MASK_IN");
  const int64_t n = y.elements();
  launch.grid = {blocks_for(n, 256, 8)};
  std::array<float, 4> p;
  for (size_t i = 0; i < 4; ++i) p[i] = static_cast<float>(formula.numbers[i]);
  launch.arguments =
      Arguments(n, to, mask, places[0], places[1], places[2], walks[0], walks[1], walks[2], p[0], p[1], p[2], p[3]);
  return launch;
}

Kernel element_kernel(const KernelCall& call, const Formula& formula, int count, int from) {
  Steps steps(call);
  std::vector<Term> terms;
  for (int i = from; i < from + count; ++i) terms.push_back({in(i), call.in(i)});
  const At mask = formula.reads_mask ? in(from + count) : !formula.taken.empty() ? steps.wanted(1) : none();
  steps.launch(element_launch(formula, terms, call.out(), steps.wanted(0), mask));
  return steps.kernel();
}

Blocking together(std::vector<int> inputs, std::vector<int> outputs) {
  Blocking blocking;
  blocking.rule = Blocking::Rule::together;
  blocking.inputs = std::move(inputs);
  blocking.outputs = std::move(outputs);
  blocking.same_shape = true;
  return blocking;
}

}  // namespace plimsoll::kernels::cuda
