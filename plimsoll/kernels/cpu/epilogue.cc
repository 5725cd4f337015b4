// Products with what follows them: the residual is brought to where the result is to be, if it is not there, and the
// product added to it and cut at zero as it is written. The mask is made by a pass over the result.
#include "plimsoll/program/ops/epilogue.h"

#include <algorithm>
#include <cstring>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/epilogue.h"
#include "plimsoll/kernels/cpu/support/low_precision_copy.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/device.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

constexpr int64_t kBits = 8;

// The same use of the product alone.
KernelCall product_call(const KernelCall& call, const program::OpCall& product) {
  KernelCall alone{.op = product,
                   .inputs = call.inputs,
                   .outputs = {call.out()},
                   .requested = {call.produces(0)},
                   .threads = call.threads,
                   .spare_bytes = call.spare_bytes,
                   .least_scratch = call.least_scratch,
                   .amx_tiles = call.amx_tiles};
  alone.inputs.resize(product.inputs.size());
  return alone;
}

const KernelDef& product_kernels(const program::OpCall& product) { return *cpu_kernels().find(product.def.name); }

// ---- the residual ----

// Where element i of a shape, in row-major order, lies in a tensor that broadcasts to it.
int64_t place_in_plain(const TensorDesc& tensor, const Shape& shape, int64_t i) {
  int64_t place = 0;
  for (int axis = shape.rank() - 1; axis >= 0; i /= shape[axis], --axis) {
    const int own = axis - (shape.rank() - tensor.shape.rank());
    if (own >= 0 && tensor.shape[own] != 1) place += i % shape[axis] * tensor.stride(own);
  }
  return place;
}

int64_t place_in_blocked(const TensorDesc& tensor, int64_t i) {
  const int64_t channels = tensor.shape[1];
  const int64_t positions = tensor.elements() / (tensor.shape[0] * channels);
  const int64_t position = i % positions;
  const int64_t channel = i / positions % channels;
  const int64_t sample = i / positions / channels;
  if (tensor.channels_last) return (sample * positions + position) * channels + channel;
  const int64_t lane = channel % kChannelBlock;
  return (sample * channels + channel - lane) * positions + position * kChannelBlock + lane;
}

int64_t place_of(const TensorDesc& tensor, const Shape& shape, int64_t i) {
  return tensor.blocked ? place_in_blocked(tensor, i) : place_in_plain(tensor, shape, i);
}

bool has_same_layout(const TensorDesc& a, const TensorDesc& b) {
  if (a.blocked || b.blocked) return a.shape == b.shape && a.blocked == b.blocked && a.channels_last == b.channels_last;
  return a.elements() == b.elements() && a.is_contiguous() && b.is_contiguous();
}

template <class T>
void copy_elements(const TensorDesc& from, const T* x, const TensorDesc& to, T* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[place_of(to, to.shape, i)] = x[place_of(from, to.shape, i)];
}

void fill(const TensorDesc& residual, const std::byte* from, const TensorDesc& y, std::byte* to, int threads) {
  const int64_t size = element_bytes(y.dtype);
  const bool alike = has_same_layout(residual, y);
  parallel(threads, y.elements(), kGrain, [&](int, int64_t begin, int64_t end) {
    if (alike) {
      std::memcpy(to + begin * size, from + begin * size, static_cast<size_t>((end - begin) * size));
    } else if (size == sizeof(float)) {
      copy_elements(residual, reinterpret_cast<const float*>(from), y, reinterpret_cast<float*>(to), begin, end);
    } else {
      copy_elements(residual, reinterpret_cast<const uint16_t*>(from), y, reinterpret_cast<uint16_t*>(to), begin, end);
    }
  });
}

// ---- the mask ----

// Of elements [begin, end) in row-major order, whatever the result's is.
void mask_blocked(const TensorDesc& tensor, const float* y, uint8_t* mask, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += kBits) {
    unsigned bits = 0;
    for (int64_t bit = 0; bit < std::min(kBits, end - i); ++bit) {
      if (y[place_in_blocked(tensor, i + bit)] > 0) bits |= 1U << bit;
    }
    mask[i / kBits] = static_cast<uint8_t>(bits);
  }
}

void make_mask(const TensorDesc& tensor, float* y, uint8_t* mask, int threads) {
  const int64_t count = tensor.elements();
  parallel(threads, (count + kBits - 1) / kBits, kGrain / kBits, [&](int, int64_t first, int64_t last) {
    const int64_t begin = first * kBits;
    const int64_t end = std::min(count, last * kBits);
    if (tensor.blocked) {
      mask_blocked(tensor, y, mask, begin, end);
    } else {
      simd::functions().on_f32.relu(y + begin, mask + first, y + begin, end - begin);
    }
  });
}

// ---- the kernel ----

// A plan may place the result over the bias or a residual of its size. One that is still read when the result is
// written is moved to scratch first.
struct Moved {
  size_t operand;
  int64_t bytes;
  int64_t offset;
};

std::vector<Moved> moved_operands(const KernelCall& call, int64_t& scratch_bytes) {
  std::vector<Moved> moved;
  for (const int i : call.op.def.in_place) {
    if (i >= call.arity() || call.in(i).bytes() != call.out().bytes()) continue;
    if (!call.in(i).blocked && !call.in(i).is_contiguous()) continue;  // results are never placed on such views
    const bool is_residual = call.op.flag("residual") && i + 1 == call.arity();
    if (is_residual && has_same_layout(call.in(i), call.out())) continue;
    moved.push_back({static_cast<size_t>(i), call.in(i).bytes(), scratch_bytes});
    scratch_bytes += align_up(call.in(i).bytes(), kAlignment);
  }
  return moved;
}

using Forward = Kernel (*)(const KernelCall& product, const Epilogue& epilogue);

struct WithEpilogue {
  Kernel product;
  TensorDesc y;
  TensorDesc residual;
  bool adds, masks;
  int threads;
  std::vector<Moved> moved;

  void move_aside(Memory& m, std::vector<Task>& tasks) const {
    for (const Moved& one : moved) {
      std::byte*& operand = m.inputs[one.operand];
      if (operand != m.outputs[0]) continue;
      std::byte* to = m.scratch + one.offset;
      tasks.push_back([from = operand, to, bytes = static_cast<size_t>(one.bytes)] { std::memcpy(to, from, bytes); });
      operand = to;
    }
  }

  Task bind(Memory m) const {
    std::vector<Task> tasks;
    move_aside(m, tasks);
    if (adds && m.inputs.back() != m.outputs[0]) {
      tasks.push_back([from = residual, to = y, all = threads, x = m.inputs.back(), at = m.outputs[0]] {
        fill(from, x, to, at, all);
      });
    }
    tasks.push_back(product.bind(m));
    if (masks) {
      tasks.push_back([tensor = y, all = threads, at = m.out<float>(), mask = m.out<uint8_t>(1)] {
        make_mask(tensor, at, mask, all);
      });
    }
    return [tasks = std::move(tasks)] {
      for (const Task& task : tasks) task();
    };
  }
};

Kernel with_epilogue(const KernelCall& call, Forward forward) {
  const program::OpCall product = program::product_call(call.op);
  const bool adds = call.op.flag("residual");
  if (call.produces(1) && !call.op.flag("relu")) call.unsupported("masks are made with relu=true");
  Kernel multiply = forward(product_call(call, product), {.onto = adds, .relu = call.op.flag("relu")});
  int64_t bytes = align_up(multiply.scratch_bytes, kAlignment);
  const std::vector<Moved> moved = moved_operands(call, bytes);
  return {bytes, [whole = WithEpilogue{std::move(multiply), call.out(), call.inputs.back(), adds, call.produces(1),
                                       call.threads, moved}](const Memory& m) { return whole.bind(m); }};
}

Tiling tile_like_product(const KernelCall& call) {
  if (call.produces(1)) return {};
  const program::OpCall product = program::product_call(call.op);
  Tiling tiling = product_kernels(product).tiling(product_call(call, product));
  if (tiling.rule == Tiling::Rule::never) return tiling;
  const TensorDesc& last = call.inputs.back();
  const Shape& y = call.out().shape;
  const bool has_rows = last.shape.rank() == y.rank() && y.rank() > 0 && last.shape[0] == y[0];
  if (call.op.flag("residual") && has_rows) tiling.inputs.push_back(call.arity() - 1);
  return tiling;
}

bool native_like_product(const KernelCall& call) {
  const program::OpCall product = program::product_call(call.op);
  return !call.produces(1) && product_kernels(product).native(product_call(call, product));
}

}  // namespace

void register_epilogue_cpu(KernelTable& table) {
  const Blocking of_images{
      .rule = Blocking::Rule::each, .inputs = {0}, .outputs = {0}, .like_result = {2, 3}, .gains = true};
  const auto add = [&](const char* op, Forward forward, Accepts accepts, const Blocking& blocking) {
    const auto prepare = [forward](const KernelCall& call) { return with_epilogue(call, forward); };
    table.add(op, {prepare, accepts, blocking, tile_like_product, native_like_product});
  };
  add("conv_epilogue", conv_forward, contiguous_only, of_images);
  add("linear_epilogue", linear_forward, contiguous_only, {});
  add("matmul_epilogue", matmul_forward, any_layout, {});
}

}  // namespace plimsoll::kernels
