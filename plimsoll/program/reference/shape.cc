#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/reference/index.h"

namespace plimsoll::program {
namespace {

template <class T>
void transpose(Run<T>& run) {
  const Dims& axes = run.call.dims("axes");
  pull(run.in(0), run.out(), [&](const Index& index) {
    Index from{};
    for (int i = 0; i < axes.rank(); ++i) from[static_cast<size_t>(axes[i].constant())] = index[static_cast<size_t>(i)];
    return from;
  });
}

template <class T>
void expand(Run<T>& run) {
  const int rank = run.out().shape.rank();
  pull(run.in(0), run.out(), [&](const Index& index) { return broadcast_index(run.shape(0), rank, index); });
}

}  // namespace

void register_shape_reference(OpTable& table) {
  table.reference("reshape", [](auto& run) {
    run.out().reals = run.reals(0);
    run.out().ints = run.ints(0);
  });
  table.reference("transpose", [](auto& run) { transpose(run); });
  table.reference("expand", [](auto& run) { expand(run); });
}

}  // namespace plimsoll::program
