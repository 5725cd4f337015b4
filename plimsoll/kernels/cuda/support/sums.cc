#include "plimsoll/kernels/cuda/support/sums.h"

#include <algorithm>

#include "plimsoll/base/bytes.h"

namespace plimsoll::kernels::cuda {
namespace {

constexpr int64_t kBlocks = 528;           // that fill a large card, four on each of its multiprocessors
constexpr int64_t kThreads = 132 * 2048;   // likewise

DType accumulator(DType dtype) {
  if (dtype == DType::f64) return DType::f64;
  return is_floating(dtype) ? DType::f32 : DType::i64;
}

Launch reduce_launch(const ReducedOf& x, const Reduction& how, DType acc, DType out_dtype, At y, At partial,
                     bool by_rows, int64_t parts, int64_t total) {
  Launch launch{"reduce"};
  launch.defines.set("T", x.dtype)
      .set("OUT", out_dtype)
      .set("ACC", acc)
      .set("NONE", how.none)
      .set("MAP", how.map)
      .set("OP", how.op)
      .set("FINISH", how.finish);
  const int64_t outputs = x.kept.elements();
  launch.function = by_rows ? "by_rows" : "by_columns";
  launch.block = {by_rows ? 256U : 128U, 1};
  launch.grid = {by_rows ? outputs : blocks_for(outputs, 128), parts};
  launch.arguments = Arguments(outputs, x.gone.elements(), total, y, partial, x.at, x.kept, x.gone);
  return launch;
}

}  // namespace

int64_t parts_of(int64_t rows, int64_t wanted, int64_t least) {
  return std::clamp<int64_t>(std::min(wanted, rows / std::max<int64_t>(least, 1)), 1, 4096);
}

void reduce(Steps& steps, const ReducedOf& x, const Reduction& how, DType out_dtype, At y) {
  const int64_t outputs = x.kept.elements();
  const int64_t gone = x.gone.elements();
  const bool inner = x.gone.rank > 0 && x.gone.stride[x.gone.rank - 1] == 1 && x.gone.size[x.gone.rank - 1] >= 32;
  const bool by_rows = gone > 32 && (inner || outputs < 64);
  const int64_t parts = by_rows ? parts_of(gone, ceil_div(kBlocks, outputs), 2048)
                                : parts_of(gone, ceil_div(kThreads, outputs), 16);
  const DType acc = accumulator(x.dtype);
  if (parts == 1) {
    steps.launch(reduce_launch(x, how, acc, out_dtype, y, none(), by_rows, 1, gone));
    return;
  }
  const At partial = steps.scratch(parts * outputs * element_bytes(acc));
  steps.launch(reduce_launch(x, how, acc, out_dtype, none(), partial, by_rows, parts, gone));
  Reduction rest = how;
  rest.map = "v";
  ReducedOf again{acc, partial, straight(outputs), {}};
  again.gone.add(parts, outputs);
  steps.launch(reduce_launch(again, rest, acc, out_dtype, y, none(), false, 1, gone));
}

void reduce(Steps& steps, const Tensor& x, At at, program::AxisSet axes, const Reduction& how, DType out_dtype, At y) {
  reduce(steps, {x.dtype, at, walk_along(x, axes, false), walk_along(x, axes, true)}, how, out_dtype, y);
}

}  // namespace plimsoll::kernels::cuda
