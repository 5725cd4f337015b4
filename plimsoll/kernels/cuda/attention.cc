// Attention, forward and backward.
#include <cmath>

#include "plimsoll/device/cuda/runtime.h"
#include "plimsoll/kernels/cuda/support/sums.h"
#include "plimsoll/program/random.h"

namespace plimsoll::kernels {
namespace {

using namespace cuda;  // NOLINT: the whole file is of it
using plimsoll::cuda::Runtime;

// As attention.cuh has them.
struct Heads {
  int64_t batch, heads, queries, keys, dim, width;
  int64_t q[4], k[4], v[4], mask[4];
  int32_t causal;
  float scale;
};

// Operands q, k, v stand from `first` on; the seed of dropout, where it drops, and the mask, if any, from `tail` on.
struct Places {
  int first;
  int tail;
  bool drops;
  int mask() const { return drops ? tail + 1 : tail; }
};

Heads heads_of(const KernelCall& call, const Places& places) {
  const TensorDesc& q = call.in(places.first);
  const TensorDesc& k = call.in(places.first + 1);
  const TensorDesc& v = call.in(places.first + 2);
  const double given = call.op.real("scale");
  Heads h{q.shape[0],
          q.shape[1],
          q.shape[2],
          k.shape[2],
          q.shape[3],
          v.shape[3],
          {},
          {},
          {},
          {},
          call.op.flag("causal"),
          static_cast<float>(given != 0 ? given : 1 / std::sqrt(static_cast<double>(q.shape[3])))};
  for (int axis = 0; axis < 4; ++axis) {
    h.q[axis] = q.stride(axis);
    h.k[axis] = k.stride(axis);
    h.v[axis] = v.stride(axis);
  }
  if (places.mask() < call.arity()) {
    const TensorDesc& mask = call.in(places.mask());
    const int added = 4 - mask.shape.rank();
    for (int axis = added; axis < 4; ++axis) {
      h.mask[axis] = mask.shape[axis - added] == 1 ? 0 : mask.stride(axis - added);
    }
  }
  return h;
}

// The draws of dropout: an address, then plain numbers, as the device code's struct has them.
struct DropNumbers {
  uint64_t stream;
  int64_t offset;
  uint64_t threshold;
  float scale;
  int32_t pad;
};

DropNumbers drop_of(const KernelCall& call, const Places& places) {
  if (!places.drops) return {0, 0, 0, 1, 0};
  const double rate = call.op.real("rate");
  return {static_cast<uint64_t>(call.op.integer("stream")), call.op.integer("offset"), program::drop_threshold(rate),
          static_cast<float>(1 / (1 - rate)), 0};
}

Launch attention_launch(const KernelCall& call, const Places& places, const char* function, int64_t lines) {
  Launch launch{"attention"};
  const DType dtype = call.in(places.first).dtype;
  const bool masked = places.mask() < call.arity();
  const DType mask = masked ? call.in(places.mask()).dtype : dtype;
  launch.defines.set("T", dtype).set("M", mask);
  if (masked) launch.defines.set(mask == DType::boolean ? "BOOL_MASK" : "ADD_MASK");
  if (places.drops) launch.defines.set("DROPS");
  launch.function = function;
  launch.block = {128, 1};
  launch.grid = {blocks_for(lines, 4)};
  return launch;
}

At mask_of(const KernelCall& call, const Places& places) {
  return places.mask() < call.arity() ? in(places.mask()) : none();
}

// ---- by tensor cores ----

bool lies_in_vectors(const int64_t (&strides)[4]) {
  return strides[3] == 1 && strides[0] % 8 == 0 && strides[1] % 8 == 0 && strides[2] % 8 == 0;
}

bool fits_units(const KernelCall& call, const Places& places, const Heads& h) {
  const DType dtype = call.in(places.first).dtype;
  if (dtype != DType::bf16 && dtype != DType::f16) return false;
  if (places.drops || places.mask() < call.arity() || h.dim != h.width || h.keys == 0) return false;
  return h.dim % 16 == 0 && h.dim <= 128 && lies_in_vectors(h.q) && lies_in_vectors(h.k) && lies_in_vectors(h.v);
}

constexpr int64_t kTile = 64;

// 16-line pieces of a warp in `forward`: two, so that what is read from shared memory serves both, but where whole
// warpgroups multiply and nothing is gained by it.
int pieces_of(const Heads& h) {
  const std::string* const paper = CompileOnly::architecture();
  const std::string architecture = paper != nullptr    ? *paper
                                   : Runtime::exists() ? Runtime::current().architecture()
                                                       : "";
  return h.dim < 64 || (h.dim == 64 && architecture != "sm_90a") ? 2 : 1;
}

Launch unit_launch(const KernelCall& call, const Places& places, const Heads& h, const char* part,
                   const char* function) {
  Launch launch{"attention_mma"};
  launch.before = "attention_units";
  const DType dtype = call.in(places.first).dtype;
  const int rows = pieces_of(h);
  launch.defines.set(part).set("T", dtype).set("D", std::to_string(h.dim)).set("ROWS", std::to_string(rows));
  if (dtype == DType::bf16) launch.defines.set("IS_BF16");
  launch.function = function;
  launch.block = {128, 1};
  launch.shared_bytes = static_cast<unsigned>(4 * kTile * (h.dim + 8) * 2);
  return launch;
}

Kernel forward_by_units(const KernelCall& call, const Places& places, const Heads& h) {
  Steps steps(call);
  Launch launch = unit_launch(call, places, h, "FORWARD", "forward");
  launch.grid = {ceil_div(h.queries, pieces_of(h) * kTile), h.batch * h.heads};
  launch.arguments = Arguments(h, steps.wanted(0), steps.wanted(1), in(0), in(1), in(2));
  steps.launch(launch);
  return steps.kernel();
}

Kernel backward_by_units(const KernelCall& call, const Places& places, const Heads& h) {
  Steps steps(call);
  const int64_t lines = h.batch * h.heads * h.queries;
  const At dy = steps.contiguous(0);
  const At lse = steps.contiguous(5);
  const At delta = steps.scratch(lines * 4);
  Launch inner = unit_launch(call, places, h, "BACKWARD", "inner");
  inner.grid = {blocks_for(lines, 4)};
  inner.shared_bytes = 0;
  inner.arguments = Arguments(h, delta, dy, steps.contiguous(4));
  steps.launch(inner);
  if (call.produces(1) || call.produces(2)) {
    Launch keys = unit_launch(call, places, h, "BACKWARD", "by_keys");
    keys.grid = {ceil_div(h.keys, kTile), h.batch * h.heads};
    keys.shared_bytes += 4 * kTile * 4;
    keys.arguments = Arguments(h, steps.wanted(1), steps.wanted(2), dy, in(1), in(2), in(3), lse, delta);
    steps.launch(keys);
  }
  if (call.produces(0)) {
    Launch queries = unit_launch(call, places, h, "BACKWARD", "by_queries");
    queries.grid = {ceil_div(h.queries, kTile), h.batch * h.heads};
    queries.arguments = Arguments(h, out(0), dy, in(1), in(2), in(3), lse, delta);
    steps.launch(queries);
  }
  return steps.kernel();
}

// ---- any ----

Kernel forward(const KernelCall& call, bool drops) {
  const Places places{0, 3, drops};
  Steps steps(call);
  const Heads h = heads_of(call, places);
  if (fits_units(call, places, h)) return forward_by_units(call, places, h);
  Launch launch = attention_launch(call, places, "forward", h.batch * h.heads * h.queries);
  launch.arguments = Arguments(h, steps.wanted(0), steps.wanted(1), in(0), in(1), in(2), mask_of(call, places),
                               WithAddress{drops ? in(3) : none(), bytes_of_struct(drop_of(call, places))});
  steps.launch(launch);
  return steps.kernel();
}

// The scores that one element of the mask stands for: places in [batch, heads, queries, keys].
struct MaskWalks {
  Walk kept;
  Walk shown;

  MaskWalks(const TensorDesc& mask, const Heads& h) {
    const int64_t sizes[4] = {h.batch, h.heads, h.queries, h.keys};
    int64_t stride = h.batch * h.heads * h.queries * h.keys;
    const int added = 4 - mask.shape.rank();
    for (int axis = 0; axis < 4; ++axis) {
      stride /= sizes[axis];
      const bool is_kept = axis >= added && mask.shape[axis - added] == sizes[axis];
      (is_kept ? kept : shown).add(sizes[axis], stride);
    }
  }
};

Kernel backward(const KernelCall& call, bool drops) {
  const Places places{1, 6, drops};
  Steps steps(call);
  const Heads h = heads_of(call, places);
  if (fits_units(call, places, h)) return backward_by_units(call, places, h);
  const int64_t lines = h.batch * h.heads * h.queries;
  const At dy = steps.contiguous(0);
  const At y = steps.contiguous(4);
  const At lse = steps.contiguous(5);
  const At delta = steps.scratch(lines * 4);
  const WithAddress drop{drops ? in(6) : none(), bytes_of_struct(drop_of(call, places))};
  const At mask = mask_of(call, places);
  Launch inner = attention_launch(call, places, "inner", lines);
  inner.arguments = Arguments(h, delta, dy, y);
  steps.launch(inner);
  if (call.produces(0)) {
    Launch queries = attention_launch(call, places, "backward_queries", lines);
    queries.arguments = Arguments(h, out(0), dy, in(1), in(2), in(3), lse, delta, mask, drop);
    steps.launch(queries);
  }
  if (call.produces(1) || call.produces(2)) {
    Launch keys = attention_launch(call, places, "backward_keys", h.batch * h.heads * h.keys);
    keys.arguments = Arguments(h, steps.wanted(1), steps.wanted(2), dy, in(1), in(2), in(3), lse, delta, mask, drop);
    steps.launch(keys);
  }
  if (call.produces(3)) {
    const MaskWalks walks(call.in(places.mask()), h);
    const int64_t elements = call.out(3).elements();
    Launch of_mask = attention_launch(call, places, "backward_mask", elements);
    of_mask.arguments = Arguments(h, elements, walks.shown.elements(), out(3), dy, in(1), in(2), in(3), lse, delta,
                                  mask, drop, walks.kept, walks.shown);
    steps.launch(of_mask);
  }
  return steps.kernel();
}

}  // namespace

void register_attention_cuda(KernelTable& table) {
  for (const bool drops : {false, true}) {
    const std::string name = drops ? "attention_dropout" : "attention";
    table.add(name, {[drops](const KernelCall& call) { return forward(call, drops); }, any_layout});
    table.add(name + "_backward", {[drops](const KernelCall& call) { return backward(call, drops); }, any_layout});
  }
}

}  // namespace plimsoll::kernels
