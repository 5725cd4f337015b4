#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/reference/index.h"

namespace plimsoll::program {
namespace {

// Where element `index` of a slice stands in the whole.
Index in_whole(const OpCall& call, const Index& index) {
  Index whole{};
  for (int axis = 0; axis < call.dims("starts").rank(); ++axis) {
    const auto at = static_cast<size_t>(axis);
    whole[at] = call.dims("starts")[axis].constant() + index[at] * call.dims("steps")[axis].constant();
  }
  return whole;
}

Index moved(Index index, int axis, int64_t by) {
  index[static_cast<size_t>(axis)] += by;
  return index;
}

template <class T>
void split(Run<T>& run) {
  const int axis = run.call.axis("axis");
  int64_t before = 0;
  for (Array<T>& piece : run.outputs) {
    pull(run.in(0), piece, [&](const Index& index) { return moved(index, axis, before); });
    before += piece.shape[axis];
  }
}

template <class T>
void concat(Run<T>& run) {
  const int axis = run.call.axis("axis");
  int64_t before = 0;
  for (int i = 0; i < run.arity(); ++i) {
    push(run.in(i), run.out(), [&](const Index& index) { return moved(index, axis, before); });
    before += run.shape(i)[axis];
  }
}

}  // namespace

void register_slice_reference(OpTable& table) {
  table.reference("slice", [](auto& run) {
    pull(run.in(0), run.out(), [&](const Index& index) { return in_whole(run.call, index); });
  });
  table.reference("slice_backward", [](auto& run) {
    push(run.in(0), run.out(), [&](const Index& index) { return in_whole(run.call, index); });
  });
  table.reference("split", [](auto& run) { split(run); });
  table.reference("concat", [](auto& run) { concat(run); });
}

}  // namespace plimsoll::program
