#include "plimsoll/kernels/cuda/support/sums.h"

#include <algorithm>

#include "plimsoll/base/bytes.h"

namespace plimsoll::kernels::cuda {
namespace {

constexpr int64_t kBlocks = 528;          // that fill a large card, four on each of its multiprocessors
constexpr int64_t kThreads = 132 * 2048;  // likewise

DType accumulator(DType dtype) {
  if (dtype == DType::f64) return DType::f64;
  return is_floating(dtype) ? DType::f32 : DType::i64;
}

enum class Way : uint8_t { rows, columns, columns8 };

// Rows without gaps, of whole vectors.
bool in_columns8(const ReducedOf& x) {
  return x.kept.rank == 1 && x.kept.stride[0] == 1 && x.kept.size[0] % 8 == 0 && x.gone.rank == 1 &&
         x.gone.stride[0] == x.kept.size[0] && x.dtype != DType::f64;
}

Launch reduce_launch(const ReducedOf& x, const Reduction& how, DType acc, DType out_dtype, At y, At partial, Way way,
                     int64_t parts, int64_t total) {
  Launch launch{"reduce"};
  launch.defines.set("T", x.dtype)
      .set("OUT", out_dtype)
      .set("ACC", acc)
      .set("NONE", how.none)
      .set("MAP", how.map)
      .set("OP", how.op)
      .set("FINISH", how.finish);
  const int64_t outputs = x.kept.elements();
  launch.function = way == Way::rows ? "by_rows" : way == Way::columns ? "by_columns" : "by_columns8";
  launch.block = {way == Way::rows ? 256U : way == Way::columns ? 128U : 32U, 1};
  launch.grid = {way == Way::rows ? outputs : blocks_for(outputs, launch.block.x, way == Way::columns8 ? 8 : 1), parts};
  launch.arguments = Arguments(outputs, x.gone.elements(), total, y, partial, x.at, x.kept, x.gone);
  return launch;
}

}  // namespace

int64_t parts_of(int64_t rows, int64_t wanted, int64_t least) {
  return std::clamp<int64_t>(std::min(wanted, rows / std::max<int64_t>(least, 1)), 1, 1024);
}

void reduce(Steps& steps, const ReducedOf& x, const Reduction& how, DType out_dtype, At y) {
  const int64_t outputs = x.kept.elements();
  const int64_t gone = x.gone.elements();
  const bool inner = x.gone.rank > 0 && x.gone.stride[x.gone.rank - 1] == 1 && x.gone.size[x.gone.rank - 1] >= 32;
  const bool by_rows = gone > 32 && (inner || outputs < 64);
  const Way way = by_rows ? Way::rows : in_columns8(x) ? Way::columns8 : Way::columns;
  // One thread adds up the parts of a column: not too many.
  constexpr int64_t kMostParts = 256;
  const int64_t wanted = by_rows
                             ? parts_of(gone, ceil_div(kBlocks, outputs), 2048)
                             : parts_of(gone, ceil_div(way == Way::columns8 ? 2 * kThreads : kThreads, outputs), 16);
  const int64_t parts = std::min(wanted, kMostParts);
  const DType acc = accumulator(x.dtype);
  if (parts == 1) {
    steps.launch(reduce_launch(x, how, acc, out_dtype, y, none(), way, 1, gone));
    return;
  }
  const At partial = steps.scratch(parts * outputs * element_bytes(acc));
  steps.launch(reduce_launch(x, how, acc, out_dtype, none(), partial, way, parts, gone));
  Reduction rest = how;
  rest.map = "v";
  ReducedOf again{acc, partial, straight(outputs), {}};
  again.gone.add(parts, outputs);
  steps.launch(reduce_launch(again, rest, acc, out_dtype, y, none(), Way::columns, 1, gone));
}

void reduce(Steps& steps, const TensorDesc& x, At at, program::AxisSet axes, const Reduction& how, DType out_dtype,
            At y) {
  reduce(steps, {x.dtype, at, walk_along(x, axes, false), walk_along(x, axes, true)}, how, out_dtype, y);
}

}  // namespace plimsoll::kernels::cuda
