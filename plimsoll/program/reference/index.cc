#include "plimsoll/program/reference/index.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plimsoll/program/evaluate.h"

namespace plimsoll::program {
namespace {

enum class Negative { refused, from_end };

// The element of operand `operand` at `at` as a place in a dimension of `size`. Rejects one that is out of range.
template <class T>
int64_t chosen(const Run<T>& run, int operand, const Index& at, int64_t size, Negative negative) {
  const Shape& shape = run.shape(operand);
  const int64_t given = run.ints(operand)[place_of(shape, at)];
  const int64_t least = negative == Negative::from_end ? -size : 0;
  if (given >= least && given < size) return given < 0 ? given + size : given;
  run.call.reject(fmt::format("{}[{}] is {}, expected {} to {}", run.call.def.input_name(operand),
                              fmt::join(at.begin(), at.begin() + shape.rank(), ","), given, least, size - 1));
}

// Taking slices: index i of the result shows x at [i before axis, index[i from axis on], i after].
struct Slices {
  int axis;
  Negative negative;

  template <class T>
  Index operator()(const Run<T>& run, const Index& i, const Shape& x) const {
    const int rank = run.shape(1).rank();
    Index at{};
    for (int d = 0; d < rank; ++d) at[static_cast<size_t>(d)] = i[static_cast<size_t>(axis + d)];
    Index from = i;
    from[static_cast<size_t>(axis)] = chosen(run, 1, at, x[axis], negative);
    for (int d = axis + 1; d < x.rank(); ++d) from[static_cast<size_t>(d)] = i[static_cast<size_t>(d + rank - 1)];
    return from;
  }
};

// Taking elements: index i of the result shows x at i, but along the axis at index[i].
template <class T>
Index element(const Run<T>& run, Index i, const Shape& x) {
  const int axis = run.call.axis("axis");
  i[static_cast<size_t>(axis)] = chosen(run, 1, i, x[axis], Negative::from_end);
  return i;
}

template <class T>
void gather(Run<T>& run, const Slices& slices) {
  pull(run.in(0), run.out(), [&](const Index& i) { return slices(run, i, run.shape(0)); });
}

template <class T>
void gather_backward(Run<T>& run) {
  const auto axis = static_cast<int>(run.call.integer("axis"));
  const Slices slices{axis, Negative::from_end};
  const Shape& shape = run.out().shape;
  for_each_index(run.shape(0), [&](const Index& i, size_t place) {
    const Index to = slices(run, i, shape);
    if (to[static_cast<size_t>(axis)] == run.call.integer("padding")) return;
    run.out().reals[place_of(shape, to)] += run.reals(0)[place];
  });
}

template <class T>
void scatter_elements(Run<T>& run) {
  const bool adds = run.call.flag("add");
  const Shape& shape = run.out().shape;
  on_numbers(run.in(0), [&](auto of) {
    auto& y = of(run.out());
    y = of(run.in(0));
    for_each_index(run.shape(2), [&](const Index& i, size_t place) {
      auto& target = y[place_of(shape, element(run, i, shape))];
      target = of(run.in(2))[place] + (adds ? target : 0);
    });
  });
}

template <class T>
void one_hot(Run<T>& run) {
  const int64_t depth = run.call.integer("depth");
  on_numbers(run.out(), [&](auto of) {
    for_each_index(run.shape(0), [&](Index i, size_t place) {
      const int64_t hot = chosen(run, 0, i, depth, Negative::refused);
      of(run.out())[place * static_cast<size_t>(depth) + static_cast<size_t>(hot)] = 1;
    });
  });
}

}  // namespace

void register_index_reference(OpTable& table) {
  table.reference("gather", [](auto& run) { gather(run, {run.call.axis("axis"), Negative::from_end}); });
  table.reference("embedding", [](auto& run) { gather(run, {0, Negative::refused}); });
  table.reference("gather_backward", [](auto& run) { gather_backward(run); });
  table.reference("gather_elements", [](auto& run) {
    pull(run.in(0), run.out(), [&](const Index& i) { return element(run, i, run.shape(0)); });
  });
  table.reference("gather_elements_backward", [](auto& run) {
    push(run.in(0), run.out(), [&](const Index& i) { return element(run, i, run.out().shape); });
  });
  table.reference("scatter_elements", [](auto& run) { scatter_elements(run); });
  table.reference("one_hot", [](auto& run) { one_hot(run); });
}

}  // namespace plimsoll::program
