#include "plimsoll/program/ops/quantize.h"

#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/quantization.h"
#include "plimsoll/program/reference/conv.h"

namespace plimsoll::program {
namespace {

// Result 1 has a scale for each row, whatever makes a row.
template <class T>
void quantize(Run<T>& run) {
  std::vector<T>& scales = run.out(1).reals;
  const size_t columns = scales.empty() ? 0 : run.reals(0).size() / scales.size();
  for (size_t row = 0; row < scales.size(); ++row) {
    const std::span<const T> x(run.reals(0).data() + row * columns, columns);
    const RowScale<T> found = row_scale(largest_in_size(x), run.out().dtype);
    scales[row] = found.scale;
    for (size_t i = 0; i < columns; ++i) {
      run.out().ints[row * columns + i] = to_byte(x[i], found.inverse, run.out().dtype);
    }
  }
}

// From a sum of products of bytes to what it stands for.
template <class T>
T scaled(const Run<T>& run, int64_t sum, size_t row, size_t channel) {
  const T y = static_cast<T>(sum) * (run.reals(2)[row] * run.reals(3)[channel]);
  return run.arity() > 4 ? y + run.reals(4)[channel] : y;
}

template <class T>
void conv(Run<T>& run) {
  Array<T>& y = run.out();
  std::vector<int64_t> sums(y.reals.size());
  for_each_conv_product(run.call, run.shape(0), run.shape(1), y.shape, [&](size_t out, size_t in, size_t weight) {
    sums[out] += run.ints(0)[in] * run.ints(1)[weight];
  });
  for_each_index(y.shape, [&](const Index& at, size_t place) {
    y.reals[place] = scaled(run, sums[place], static_cast<size_t>(at[0]), static_cast<size_t>(at[1]));
  });
}

template <class T>
void linear(Run<T>& run) {
  std::vector<T>& y = run.out().reals;
  const auto out = static_cast<size_t>(run.shape(1)[0]);
  const auto in = static_cast<size_t>(run.shape(1)[1]);
  for (size_t i = 0; i < y.size(); ++i) {
    int64_t sum = 0;
    for (size_t k = 0; k < in; ++k) sum += run.ints(0)[i / out * in + k] * run.ints(1)[i % out * in + k];
    y[i] = scaled(run, sum, i / out, i % out);
  }
}

template <class T>
void embedding(Run<T>& run) {
  std::vector<T>& y = run.out().reals;
  const int64_t rows = run.shape(0)[0];
  const auto columns = static_cast<size_t>(run.shape(0)[1]);
  for (size_t i = 0; i < y.size(); ++i) {
    const int64_t row = run.ints(1)[i / columns];
    run.call.require(row >= 0 && row < rows, "the index must be a row of w");
    const auto at = static_cast<size_t>(row);
    y[i] = static_cast<T>(run.ints(0)[at * columns + i % columns]) * run.reals(2)[at];
  }
}

}  // namespace

void register_quantize_reference(OpTable& table) {
  for (const char* op : {"quantize", "quantize_rows"}) table.reference(op, [](auto& run) { quantize(run); });
  table.reference("conv_i8", [](auto& run) { conv(run); });
  table.reference("linear_i8", [](auto& run) { linear(run); });
  table.reference("embedding_i8", [](auto& run) { embedding(run); });
}

}  // namespace plimsoll::program
