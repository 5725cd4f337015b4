// Adafactor in three passes over the gradient: means of squares, the size of the update, the update. Nothing of the
// parameter's size is kept between them. Sums are taken row by row in one order, so that a thread count changes no bit.
#include "plimsoll/program/ops/factored.h"

#include <algorithm>
#include <cmath>

#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/support/updates.h"
#include "plimsoll/kernels/kernel.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

// A parameter as a matrix; one of one dimension has a column for each element, and no means by rows.
struct Factored {
  int64_t rows, columns;
  float decay;
  float* w;
  const float* dw;
  float* of_rows;     // null: of a vector
  float* of_columns;  // of a vector: of each element
  const int64_t* step;
  UpdateScalars scalars;

  int64_t count() const { return rows * columns; }
};

// As a share of what the mean was, and of what is new.
void take_in(float& mean, double now, double share) {
  mean = static_cast<float>((1 - share) * static_cast<double>(mean) + share * now);
}

double square(float x) { return static_cast<double>(x) * static_cast<double>(x); }

void take_in_squares(const Factored& f, double scale, double share) {
  const double by_row = scale * scale / static_cast<double>(f.columns);
  const double by_column = scale * scale / static_cast<double>(f.rows);
  for (int64_t i = 0; f.of_rows != nullptr && i < f.rows; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < f.columns; ++j) sum += square(f.dw[i * f.columns + j]);
    take_in(f.of_rows[i], sum * by_row, share);
  }
  constexpr int64_t kColumns = 256;  // at a time: their sums stay in the cache
  double sums[kColumns];
  for (int64_t first = 0; first < f.columns; first += kColumns) {
    const int64_t width = std::min(kColumns, f.columns - first);
    std::fill(sums, sums + width, 0.0);
    for (int64_t i = 0; i < f.rows; ++i) {
      for (int64_t j = 0; j < width; ++j) sums[j] += square(f.dw[i * f.columns + first + j]);
    }
    for (int64_t j = 0; j < width; ++j) take_in(f.of_columns[first + j], sums[j] * by_column, share);
  }
}

// What the columns' means are multiplied with in row i: the row's share of the mean of all.
double row_share(const Factored& f, int64_t i, double mean) {
  return f.of_rows == nullptr ? 1 : static_cast<double>(f.of_rows[i]) / mean;
}

float update_of(float gradient, double row, float column) {
  constexpr double kLeast = program::kLeastSquare * program::kLeastSquare;
  return gradient / static_cast<float>(std::sqrt(std::max(row * static_cast<double>(column), kLeast)));
}

double mean_of_rows(const Factored& f) {
  if (f.of_rows == nullptr) return 1;
  double sum = 0;
  for (int64_t i = 0; i < f.rows; ++i) sum += static_cast<double>(f.of_rows[i]);
  return std::max(sum / static_cast<double>(f.rows), program::kLeastSquare);
}

void apply(const Factored& f) {
  if (f.scalars.skip()) return;
  const float scale = f.scalars.scale_or_one();
  const double rate = static_cast<double>(*f.scalars.rate);
  const auto step = static_cast<double>(*f.step);
  take_in_squares(f, static_cast<double>(scale), std::pow(step, program::kFactoredDecay));
  const double mean = mean_of_rows(f);
  double of_updates = 0;
  double of_w = 0;
  for (int64_t i = 0; i < f.rows; ++i) {
    const double row = row_share(f, i, mean);
    for (int64_t j = 0; j < f.columns; ++j) {
      of_updates += square(update_of(scale * f.dw[i * f.columns + j], row, f.of_columns[j]));
      of_w += square(f.w[i * f.columns + j]);
    }
  }
  const auto count = static_cast<double>(f.count());
  const double size = std::max(program::kLeastParameter, std::sqrt(of_w / count)) * std::min(rate, 1 / std::sqrt(step));
  const auto clipped = static_cast<float>(size / std::max(1.0, std::sqrt(of_updates / count)));
  const auto kept = static_cast<float>(1 - rate * static_cast<double>(f.decay));
  for (int64_t i = 0; i < f.rows; ++i) {
    const double row = row_share(f, i, mean);
    for (int64_t j = 0; j < f.columns; ++j) {
      float& w = f.w[i * f.columns + j];
      w = w * kept - clipped * update_of(scale * f.dw[i * f.columns + j], row, f.of_columns[j]);
    }
  }
}

Kernel factored(const KernelCall& call, bool is_matrix) {
  for (int i = 0; i < call.arity(); ++i) {
    if (is_floating(call.in(i).dtype)) call.require_f32(i);
  }
  const int step = is_matrix ? 4 : 3;
  if (call.in(step).dtype != DType::i64) call.unsupported("the step counter must be i64");
  const int64_t rows = is_matrix ? call.in(2).elements() : 1;
  const int64_t columns = call.in(is_matrix ? 3 : 2).elements();
  const auto decay = static_cast<float>(call.op.real("weight_decay"));
  return plain([=](const Memory& m) -> Task {
    const Factored f{rows,
                     columns,
                     decay,
                     m.out<float>(),
                     m.in<float>(1),
                     is_matrix ? m.out<float>(1) : nullptr,
                     m.out<float>(is_matrix ? 2 : 1),
                     m.in<int64_t>(step),
                     {m.in<float>(step + 1), m.in<float>(step + 2)}};
    return [f] { apply(f); };
  });
}

}  // namespace

void register_factored_cpu(KernelTable& table) {
  table.add("adafactor", {[](const KernelCall& call) { return factored(call, true); }, contiguous_only});
  table.add("adafactor_vector", {[](const KernelCall& call) { return factored(call, false); }, contiguous_only});
}

}  // namespace plimsoll::kernels
