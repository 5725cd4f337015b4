#include <algorithm>
#include <cmath>

#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/reference/index.h"

namespace plimsoll::program {
namespace {

// Where a padded element comes from in x: beyond the edges it is mirrored, or the edge itself.
Index in_padded(const OpCall& call, const Shape& x, const Index& index) {
  Index from{};
  const bool reflect = call.word("mode") == "reflect";
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto at = static_cast<size_t>(axis);
    int64_t place = index[at] - call.dims("before")[axis].constant();
    if (reflect && place < 0) place = -place;
    if (reflect && place >= x[axis]) place = 2 * (x[axis] - 1) - place;
    from[at] = std::clamp<int64_t>(place, 0, x[axis] - 1);
  }
  return from;
}

template <class T>
void fill_all(Array<T>& y, double value) {
  std::fill(y.reals.begin(), y.reals.end(), static_cast<T>(value));
  std::fill(y.ints.begin(), y.ints.end(), static_cast<int64_t>(std::floor(value)));
}

template <class T>
void pad_with_constant(Run<T>& run) {
  fill_all(run.out(), run.call.real("value"));
  on_numbers(run.in(0), [&](auto of) {
    for_each_index(run.shape(0), [&](Index index, size_t place) {
      for (int axis = 0; axis < run.shape(0).rank(); ++axis) {
        index[static_cast<size_t>(axis)] += run.call.dims("before")[axis].constant();
      }
      of(run.out())[place_of(run.out().shape, index)] = of(run.in(0))[place];
    });
  });
}

template <class T>
void pad(Run<T>& run) {
  if (run.call.word("mode") == "constant") return pad_with_constant(run);
  pull(run.in(0), run.out(), [&](const Index& index) { return in_padded(run.call, run.shape(0), index); });
}

template <class T>
void tile(Run<T>& run) {
  pull(run.in(0), run.out(), [&](Index index) {
    for (int axis = 0; axis < run.shape(0).rank(); ++axis) index[static_cast<size_t>(axis)] %= run.shape(0)[axis];
    return index;
  });
}

}  // namespace

void register_pad_reference(OpTable& table) {
  table.reference("pad", [](auto& run) { pad(run); });
  table.reference("pad_backward", [](auto& run) {
    push(run.in(0), run.out(), [&](const Index& index) { return in_padded(run.call, run.out().shape, index); });
  });
  table.reference("tile", [](auto& run) { tile(run); });
}

}  // namespace plimsoll::program
