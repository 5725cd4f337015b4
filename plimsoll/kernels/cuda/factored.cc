// Adafactor: means of squares by rows and columns, the size of the update, the update.
#include "plimsoll/program/ops/factored.h"

#include <algorithm>

#include "plimsoll/kernels/cuda/support/sums.h"

namespace plimsoll::kernels {
namespace {

using namespace cuda;  // NOLINT: the whole file is of it

constexpr int64_t kMostParts = 512;

// Operands w, dw, the means, then from `step` on the counter, the rate and perhaps the scale.
struct Factored {
  bool is_matrix;
  int step;
  int64_t rows, columns;

  Factored(const KernelCall& call, bool matrix)
      : is_matrix(matrix),
        step(matrix ? 4 : 3),
        rows(matrix ? call.in(2).elements() : 1),
        columns(call.in(matrix ? 3 : 2).elements()) {}
  int64_t count() const { return rows * columns; }
};

Launch launch_of(const KernelCall& call, const Factored& f, const char* function) {
  Launch launch{"factored"};
  launch.function = function;
  launch.defines.set("W", call.in(0).dtype).set("STEP", call.in(f.step).dtype).set("RATE", call.in(f.step + 1).dtype);
  launch.defines.set("SCALE", f.step + 2 < call.arity() ? call.in(f.step + 2).dtype : DType::f32);
  launch.defines.set("S0", f.is_matrix ? call.in(2).dtype : DType::f32);
  launch.defines.set("S1", call.in(f.is_matrix ? 3 : 2).dtype);
  return launch;
}

Walk walk(int64_t elements, int64_t stride) {
  Walk made;
  made.add(elements, stride);
  return made;
}

// Takes the squares of dw in, summed over what `gone` walks, for each of the means at `at`.
void take_in(Steps& steps, const Factored& f, const char* function, At at, const Walk& kept, const Walk& gone) {
  const KernelCall& call = steps.call();
  const At sums = steps.scratch(kept.elements() * 4);
  cuda::reduce(steps, {call.in(1).dtype, steps.contiguous(1), kept, gone}, {.map = "v * v"}, DType::f32, sums);
  Launch launch = launch_of(call, f, function);
  launch.grid = {blocks_for(kept.elements())};
  launch.arguments = Arguments(kept.elements(), at, sums, static_cast<float>(gone.elements()), steps.contiguous(f.step),
                               steps.contiguous_or_none(f.step + 2));
  steps.launch(launch);
}

Kernel factored(const KernelCall& call, bool is_matrix) {
  const Factored f(call, is_matrix);
  Steps steps(call);
  const At dw = steps.contiguous(1);
  const At of_rows = is_matrix ? out(1) : none();
  const At of_columns = out(is_matrix ? 2 : 1);
  const At rate = steps.contiguous(f.step + 1);
  const At scale = steps.contiguous_or_none(f.step + 2);
  const At rows_sum = steps.scratch(4);
  if (is_matrix) {
    take_in(steps, f, "take_in_rows", of_rows, walk(f.rows, f.columns), walk(f.columns, 1));
    cuda::reduce(steps, {call.in(2).dtype, of_rows, {}, straight(f.rows)}, {}, DType::f32, rows_sum);
  }
  take_in(steps, f, "take_in_columns", of_columns, walk(f.columns, 1), walk(f.rows, f.columns));
  const int64_t parts = std::min(kMostParts, blocks_for(f.count()));
  const At partial = steps.scratch(parts * 8);
  const At clipped = steps.scratch(4);
  Launch sizes = launch_of(call, f, "sizes");
  sizes.grid = {parts};
  sizes.arguments = Arguments(f.rows, f.columns, out(0), dw, of_rows, of_columns, rows_sum, scale, partial);
  steps.launch(sizes);
  Launch length = launch_of(call, f, "length");
  length.arguments = Arguments(parts, static_cast<float>(f.count()), partial, steps.contiguous(f.step), rate, clipped);
  steps.launch(length);
  Launch go = launch_of(call, f, "go");
  go.grid = {blocks_for(f.count())};
  go.arguments = Arguments(f.rows, f.columns, out(0), dw, of_rows, of_columns, rows_sum, clipped, rate, scale,
                           static_cast<float>(call.op.real("weight_decay")));
  steps.launch(go);
  return steps.kernel();
}

}  // namespace

void register_factored_cuda(KernelTable& table) {
  table.add("adafactor", {[](const KernelCall& call) { return factored(call, true); }, any_layout});
  table.add("adafactor_vector", {[](const KernelCall& call) { return factored(call, false); }, any_layout});
}

}  // namespace plimsoll::kernels
