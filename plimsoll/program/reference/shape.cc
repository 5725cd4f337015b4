#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/reference/index.h"

namespace plimsoll::program {
namespace {

template <class T>
void transpose(Run<T>& run) {
  const Dims& axes = run.call.dims("axes");
  const Array<T>& x = run.in(0);
  Array<T>& y = run.out();
  for_each_index(y.shape, [&](const Index& index, size_t place) {
    Index from{};
    for (int i = 0; i < axes.rank(); ++i) from[static_cast<size_t>(axes[i].constant())] = index[static_cast<size_t>(i)];
    const size_t at = place_of(x.shape, from);
    if (!x.reals.empty()) y.reals[place] = x.reals[at];
    if (!x.ints.empty()) y.ints[place] = x.ints[at];
  });
}

}  // namespace

void register_shape_reference(OpTable& table) {
  table.reference("reshape", [](auto& run) {
    run.out().reals = run.reals(0);
    run.out().ints = run.ints(0);
  });
  table.reference("transpose", [](auto& run) { transpose(run); });
}

}  // namespace plimsoll::program
