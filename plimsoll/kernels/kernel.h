// How ops run on a device: the contract between the planner, which wants to know every byte before the run, and the
// kernels. A kernel is made in two steps, so that a step of training decides and allocates nothing:
//
//   prepare   looks at one use of an op (shapes, strides, attributes) and says how much scratch it needs. Pure: touches
//             no memory of the program.
//   bind      is given the addresses of operands, results and scratch, once, and returns what runs: a Task, which
//             only enqueues work on a stream of the device.
//
// Which ops a device can do is its KernelTable, filled by kernels/<device>/<family>.cc.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plimsoll/base/dtype.h"
#include "plimsoll/base/shape.h"
#include "plimsoll/device/stream.h"
#include "plimsoll/program/op.h"

namespace plimsoll::kernels {

// Offsets in the arena, sizes of buffers and parts of scratch are multiples of it: a cache line, the widest vector.
inline constexpr int64_t kAlignment = 64;

// Channels that lie together in a blocked tensor: a vector of the widest kind.
inline constexpr int64_t kChannelBlock = 16;

// How the elements of a tensor [batch, channels, ..] are ordered, as only kernels know.
enum class Layout : uint8_t {
  strided,        // element (i, j, ..) is i * strides[0] + j * strides[1] + .. elements after the first
  blocked16,      // row-major as [batch, channels / kChannelBlock, .., kChannelBlock]; strides say nothing
  channels_last,  // row-major as [batch, .., channels]; likewise
};

// An operand or a result as a kernel finds it. Only kernels whose definition names an operand in its Blocking see
// others than strided ones.
struct TensorDesc {
  DType dtype = DType::f32;
  Shape shape;
  std::array<int64_t, Shape::kMaxRank> strides{};
  Layout layout = Layout::strided;

  bool is_blocked() const { return layout != Layout::strided; }  // in either of the other ways
  bool is_channels_last() const { return layout == Layout::channels_last; }
  int64_t elements() const { return shape.elements(); }
  int64_t bytes() const { return elements() * element_bytes(dtype); }
  int64_t stride(int axis) const { return strides[static_cast<size_t>(axis)]; }
  bool is_contiguous() const;  // in row-major order without gaps
};

// In row-major order without gaps.
TensorDesc contiguous(DType dtype, const Shape& shape);

// One use of an op, as it is prepared.
struct KernelCall {
  const program::OpCall& op;        // attributes and types
  std::vector<TensorDesc> inputs;   // as many as are given
  std::vector<TensorDesc> outputs;  // row-major
  std::vector<bool> requested;      // whether result k is to be written: not when left out, nor when it is a view
  int threads = 1;
  int64_t spare_bytes = 0;     // of scratch that are little beside what the whole program holds anyhow
  bool least_scratch = false;  // scratch counts more than speed
  bool amx_tiles = false;      // for bf16 (cpu/tiles/tiles.h)

  int arity() const { return static_cast<int>(inputs.size()); }
  const TensorDesc& in(int i) const { return inputs[static_cast<size_t>(i)]; }
  const TensorDesc& out(int k = 0) const { return outputs[static_cast<size_t>(k)]; }
  bool produces(int k) const { return requested[static_cast<size_t>(k)]; }

  // UnsupportedError "conv %y: x is bf16[..]; <what the device can do>".
  [[noreturn]] void unsupported(std::string_view can) const;
  void require_f32(int i) const;
};

// Where the first elements are; null where nothing is given or made. Result 0 may lie where an operand does that the
// op's definition names under `in_place`, and results that overwrite lie where the operand does.
struct Memory {
  std::vector<std::byte*> inputs;
  std::vector<std::byte*> outputs;
  std::byte* scratch = nullptr;
  // Where a kernel that cannot throw writes what it finds wrong with its operands, as op number `op`; null: it throws.
  device::FaultRecord* fault = nullptr;
  int32_t op = 0;

  template <class T>
  const T* in(int i) const {
    return static_cast<size_t>(i) < inputs.size() ? reinterpret_cast<const T*>(inputs[static_cast<size_t>(i)])
                                                  : nullptr;
  }
  template <class T>
  T* out(int k = 0) const {
    return reinterpret_cast<T*>(outputs[static_cast<size_t>(k)]);
  }
  template <class T>
  T* scratch_at(int64_t offset) const {
    return reinterpret_cast<T*>(scratch + offset);
  }
};

// Runs the op once: enqueues its work on a stream and returns. Made of a function that does so with a Stream&; or, for
// kernels of the host, of a function without arguments that is the work itself. That one may throw ArgumentError for
// operands whose values make no sense (an index out of range). Enqueuing allocates nothing. The task must outlive what
// it enqueued.
class Task {
 public:
  Task() = default;
  template <class F>
  requires std::invocable<const F&, device::Stream&> Task(F enqueue)
      : enqueue_(std::move(enqueue)) {}  // NOLINT: binds return lambdas
  template <class F>
  requires(std::invocable<const F&> && !std::same_as<F, Task>) Task(F work) : work_(std::move(work)) {}  // NOLINT

  explicit operator bool() const { return work_ || enqueue_; }

  void operator()(device::Stream& stream) const {
    if (work_) return stream.enqueue(work_);
    enqueue_(stream);
  }
  // Work of the host alone, now: for kernels of the host that are made of others.
  void operator()() const { work_(); }

 private:
  std::function<void()> work_;
  std::function<void(device::Stream&)> enqueue_;
};

struct Kernel {
  int64_t scratch_bytes = 0;  // wanted while the task runs; holds nothing from step to step
  std::function<Task(const Memory&)> bind;
  bool capturable = true;  // enqueues the same each time, and no work of the host: may be part of a recorded step
};

// A kernel without scratch.
Kernel plain(std::function<Task(const Memory&)> bind);

// Whether a kernel can read an operand in place. Of one that it cannot, it gets a contiguous copy in scratch.
using Accepts = bool (*)(const TensorDesc& operand);
bool contiguous_only(const TensorDesc& operand);
bool any_layout(const TensorDesc& operand);

// Which operands and results of an op may be blocked.
struct Blocking {
  enum class Rule : uint8_t {
    never,
    each,      // each may be, whatever the others are
    together,  // all are, or none is; bit masks, which are in the order of the elements, count among them
  };
  Rule rule = Rule::never;
  std::vector<int> inputs = {};
  std::vector<int> outputs = {};
  std::vector<int> like_result = {};  // operands of rule `each` that are as result 0 is where they have its shape
  bool same_shape = false;            // and only where all of them have the shape of result 0, bit masks aside
  bool gains = false;                 // the kernel computes in blocks, and would have to copy what is not blocked
};

// How the work of one use of an op falls into `count` pieces, which are independent of each other: each has its part of
// what is listed, and all of the rest.
struct Tiling {
  enum class Rule : uint8_t {
    never,
    elements,  // a piece of [..] is [n]; a bit mask has its bits of it
    rows,      // a piece of [count, ..] is [n, ..]
    planes,    // a piece of [batch, channels, ..], with count = batch * channels, is [1, n, ..]
  };
  Rule rule = Rule::never;
  int64_t count = 1;
  std::vector<int> inputs = {};
  std::vector<int> outputs = {};
  std::vector<int> sums = {};  // results, not listed, that are the sums of what the pieces make
  bool threaded = false;       // the kernel is best with all threads on one large piece, as libraries are
};

struct KernelDef {
  std::function<Kernel(const KernelCall&)> prepare;
  Accepts accepts = contiguous_only;
  Blocking blocking = {};
  // Kernels compute in f32. For operands and results in f16 and bf16 they are given f32 copies in scratch, a piece at a
  // time where the use can be cut (tiling.h), but for uses that the kernel computes as they are.
  std::function<Tiling(const KernelCall&)> tiling = nullptr;
  bool (*native)(const KernelCall&) = nullptr;
};

// From a definition and one use of its op to a kernel; the use may have operands in any layout, dtype and block format.
using Lowering = std::function<Kernel(const KernelDef&, const KernelCall&)>;

class KernelTable {
 public:
  void add(std::string_view op, KernelDef def);  // ArgumentError for an op that is not, or has one: a bug in a family
  const KernelDef* find(std::string_view op) const;

  // How the device adapts uses that a definition does not take as they are (copies of operands that lie otherwise, or
  // in another precision). Without one, definitions see all uses.
  void set_lowering(Lowering lowering) { lowering_ = std::move(lowering); }
  Kernel lower(const KernelDef& def, const KernelCall& call) const {
    return lowering_ ? lowering_(def, call) : def.prepare(call);
  }

  // Convolutions are faster in blocks of channels on this machine.
  void use_blocks() { prefers_blocks_ = true; }
  bool prefers_blocks() const { return prefers_blocks_; }
  // The same with channels last in place of blocks, whatever the dtype.
  void use_channels_last() { prefers_blocks_ = has_channels_last_ = true; }
  bool has_channels_last() const { return has_channels_last_; }

  // Programs are rewritten so that normalisations take in what follows them (program/passes/fuse_norm_relus.h).
  void use_fused_norms() { fuses_norms_ = true; }
  bool fuses_norms() const { return fuses_norms_; }

  // The machine multiplies matrices of bf16. Then blocked tensors of bf16 have their channels last, as such units like
  // it; kernels get f32 copies as all others.
  void use_amx_tiles() { has_amx_tiles_ = true; }
  bool has_amx_tiles() const { return has_amx_tiles_; }

 private:
  std::unordered_map<std::string, KernelDef> by_op_;
  Lowering lowering_;
  bool prefers_blocks_ = false;
  bool has_channels_last_ = false;
  bool has_amx_tiles_ = false;
  bool fuses_norms_ = false;
};

}  // namespace plimsoll::kernels
