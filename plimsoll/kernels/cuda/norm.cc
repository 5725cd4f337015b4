// Normalisation of rows: layer_norm, rms_norm and group_norm.
#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cuda/support/sums.h"

namespace plimsoll::kernels {
namespace {

using namespace cuda;  // NOLINT: the whole file is of it

struct Kind {
  bool centred;
  bool by_groups;
};

// Rows of a normalisation, and how their elements find their parameters.
struct Rows {
  int64_t count = 1;
  int64_t n = 1;
  int64_t groups = 1;
  int64_t of_group = 1;  // channels
  int64_t plane = 1;

  Rows(const KernelCall& call, const Kind& kind) {
    const Shape& x = call.in(0).shape;
    if (kind.by_groups) {
      groups = call.op.integer("groups");
      of_group = x[1] / groups;
      count = x[0] * groups;
      n = x.elements() / std::max<int64_t>(count, 1);
      plane = n / of_group;
      return;
    }
    const int axis = call.op.axis("axis");
    for (int i = 0; i < x.rank(); ++i) (i < axis ? count : n) *= x[i];
  }
};

// Threads of a block and vectors of eight that each of them has, so that a row fits where it can.
struct Shape8 {
  unsigned threads;
  int most;
};
Shape8 shape8(int64_t n) {
  const int64_t vectors = ceil_div(n, 8);
  if (vectors <= 32 * 4)
    return {static_cast<unsigned>(32), static_cast<int>(std::max<int64_t>(ceil_div(vectors, 32), 1))};
  const auto threads = static_cast<unsigned>(std::clamp<int64_t>(align_up(ceil_div(vectors, 4), int64_t{32}), 64, 512));
  return {threads, 4};
}

Launch norm_launch(const KernelCall& call, const Kind& kind, const Rows& rows, DType parameter, const char* function) {
  Launch launch{"row_norm"};
  launch.defines.set("T", call.in(0).dtype).set("P", parameter).set("PLAIN", kind.by_groups ? "0" : "1");
  launch.defines.set("MOST", std::to_string(shape8(rows.n).most));
  if (kind.centred) launch.defines.set("CENTRED");
  launch.defines.set("PARAMETER(j)", kind.by_groups ? "(row % groups * of_group + (j) / plane)" : "(j)");
  launch.function = function;
  return launch;
}

DType parameter_type(const KernelCall& call, int weight) {
  return weight < call.arity() ? call.in(weight).dtype : call.in(0).dtype;
}

KernelDef forward(const Kind& kind) {
  const auto prepare = [kind](const KernelCall& call) {
    Steps steps(call);
    const Rows rows(call, kind);
    const At x = steps.contiguous(0);
    const At weight = steps.contiguous_or_none(1);
    const At bias = steps.contiguous_or_none(2);
    Launch launch = norm_launch(call, kind, rows, parameter_type(call, 1), "forward");
    launch.grid = {rows.count};
    launch.block = {shape8(rows.n).threads, 1};
    launch.arguments = Arguments(rows.n, rows.groups, rows.of_group, rows.plane, steps.wanted(0),
                                 kind.centred ? steps.wanted(1) : none(), steps.wanted(kind.centred ? 2 : 1), x, weight,
                                 bias, static_cast<float>(call.op.real("eps")));
    steps.launch(launch);
    return steps.kernel();
  };
  return {prepare, any_layout};
}

struct Operands {
  At dy, x, mean, rstd, weight;
};

// dweight and dbias of layers, by columns in parts of the rows.
void column_sums(Steps& steps, const Kind& kind, const Rows& rows, DType parameter, const Operands& all, At dweight,
                 At dbias) {
  const KernelCall& call = steps.call();
  const bool vectors = rows.n % 8 == 0;
  const int64_t columns = vectors ? rows.n / 8 : rows.n;
  const int64_t parts = parts_of(rows.count, ceil_div(int64_t{132} * 16, blocks_for(columns, 64)), 8);
  const At partial = steps.scratch(parts * 2 * rows.n * 4);
  Launch sums = norm_launch(call, kind, rows, parameter, vectors ? "columns8" : "columns");
  sums.block = {64, 1};
  sums.grid = {blocks_for(columns, 64), parts};
  sums.arguments = Arguments(rows.count, rows.n, partial, all.dy, all.x, all.mean, all.rstd);
  steps.launch(sums);
  Launch finish = norm_launch(call, kind, rows, parameter, "finish");
  finish.block = {32, 8};
  finish.grid = {blocks_for(rows.n, 32)};
  finish.arguments = Arguments(parts, rows.n, partial, dweight, dbias);
  steps.launch(finish);
}

void channel_sums(Steps& steps, const Kind& kind, const Rows& rows, DType parameter, const Operands& all, At dweight,
                  At dbias) {
  const KernelCall& call = steps.call();
  Launch sums = norm_launch(call, kind, rows, parameter, "channels");
  sums.grid = {rows.groups * rows.of_group};
  sums.arguments = Arguments(call.in(0).shape[0], call.in(0).shape[1], rows.groups, rows.of_group, rows.plane, dweight,
                             dbias, all.dy, all.x, all.mean, all.rstd);
  steps.launch(sums);
}

KernelDef backward(const Kind& kind) {
  const auto prepare = [kind](const KernelCall& call) {
    Steps steps(call);
    const Rows rows(call, kind);
    const int first = kind.centred ? 3 : 2;
    const Operands all{steps.contiguous(0), steps.contiguous(1), kind.centred ? steps.contiguous(2) : none(),
                       steps.contiguous(first), steps.contiguous_or_none(first + 1)};
    const DType parameter = call.arity() > first + 1 ? call.in(first + 1).dtype : call.in(0).dtype;
    const At dweight = steps.wanted(1);
    const At dbias = kind.centred ? steps.wanted(2) : none();
    // First, since dx may lie where dy or x is.
    if (dweight.where != At::Where::none || dbias.where != At::Where::none) {
      (kind.by_groups ? channel_sums : column_sums)(steps, kind, rows, parameter, all, dweight, dbias);
    }
    if (call.produces(0)) {
      Launch launch = norm_launch(call, kind, rows, parameter, "backward");
      launch.grid = {rows.count};
      launch.block = {shape8(rows.n).threads, 1};
      launch.arguments = Arguments(rows.n, rows.groups, rows.of_group, rows.plane, out(), all.dy, all.x, all.mean,
                                   all.rstd, all.weight);
      steps.launch(launch);
    }
    return steps.kernel();
  };
  return {prepare, any_layout};
}

}  // namespace

void register_norm_cuda(KernelTable& table) {
  const std::pair<const char*, Kind> kinds[] = {
      {"layer_norm", {true, false}}, {"rms_norm", {false, false}}, {"group_norm", {true, true}}};
  for (const auto& [name, kind] : kinds) {
    table.add(name, forward(kind));
    table.add(std::string(name) + "_backward", backward(kind));
  }
}

}  // namespace plimsoll::kernels
