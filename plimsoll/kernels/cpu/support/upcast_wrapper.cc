#include "plimsoll/kernels/cpu/support/upcast_wrapper.h"

#include <algorithm>
#include <cstring>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/copy.h"
#include "plimsoll/kernels/cpu/support/low_precision_copy.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/support/sums.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

using Rule = Tiling::Rule;

// Elements of the largest operand of a piece: some fit the second cache; enough for all threads; for a library.
constexpr int64_t kSmallTile = 1 << 14;
constexpr int64_t kSharedTile = 1 << 18;
constexpr int64_t kLargeTile = 1 << 18;

// Where copies of whole operands are more than this share of what is spare, the kernel is sparing with its own scratch.
constexpr int64_t kSparing = 4;

bool contains(const std::vector<int>& list, size_t place) {
  return std::find(list.begin(), list.end(), static_cast<int>(place)) != list.end();
}

// ---- how large pieces are ----

struct Tiles {
  int64_t count = 1;  // of what the cut counts
  int64_t size = 1;   // of all pieces but the last
  int parts = 1;      // pieces that run at once, each on one thread
  int threads = 1;    // for one piece

  int64_t number() const { return (count + size - 1) / size; }
  int64_t size_of(int64_t tile) const { return std::min(size, count - tile * size); }
};

// The most elements of a tensor that is listed, or that is not.
int64_t most_elements(const KernelCall& call, const Tiling& tiling, bool listed) {
  int64_t most = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (contains(tiling.inputs, i) == listed) most = std::max(most, call.inputs[i].elements());
  }
  for (size_t k = 0; k < call.outputs.size(); ++k) {
    if (call.requested[k] && contains(tiling.outputs, k) == listed) most = std::max(most, call.outputs[k].elements());
  }
  return most;
}

int64_t granule(Rule rule) {
  return rule == Rule::elements ? kAlignment : rule == Rule::planes ? kChannelBlock : 1;  // whole bytes, whole blocks
}

// What is not cut is read by every piece, so a large piece is not smaller than that.
Tiles choose_tiles(const KernelCall& call, const Tiling& tiling) {
  const int64_t elements = most_elements(call, tiling, true);
  const bool apart = !tiling.threaded && tiling.sums.empty() && elements >= 2 * kGrain && tiling.count >= call.threads;
  const int64_t large = std::max(tiling.threaded ? kLargeTile : kSharedTile, most_elements(call, tiling, false));
  const int64_t least = apart ? call.threads : 1;
  const int64_t most = apart ? kSmallTile : large;
  const int64_t wanted = std::clamp((elements + most - 1) / most, least, std::max(least, tiling.count));
  const int64_t size = align_up((tiling.count + wanted - 1) / wanted, granule(tiling.rule));
  Tiles tiles{tiling.count, std::min(size, tiling.count), 1, call.threads};
  if (apart && tiles.number() > 1) std::swap(tiles.parts, tiles.threads);
  return tiles;
}

// ---- what a piece has of a tensor ----

TensorDesc tile_of(const TensorDesc& whole, const Tiling& tiling, int64_t size) {
  if (tiling.rule == Rule::elements) {
    return contiguous(whole.dtype, {is_mask_of(whole, tiling.count) ? (size + 7) / 8 : size});
  }
  std::vector<int64_t> dims(whole.shape.dims().begin(), whole.shape.dims().end());
  dims[0] = tiling.rule == Rule::rows ? size : 1;
  if (tiling.rule == Rule::planes) dims[1] = size;
  TensorDesc tile = whole;
  tile.shape = Shape(dims);
  return tile;
}

// Where it begins, in bytes.
int64_t begin_of(const TensorDesc& whole, const Tiling& tiling, int64_t first) {
  if (tiling.rule == Rule::elements && is_mask_of(whole, tiling.count)) return first / 8;
  const bool strided = tiling.rule == Rule::rows && !whole.blocked;
  return first * (strided ? whole.stride(0) : whole.elements() / tiling.count) * element_bytes(whole.dtype);
}

// As a kernel gets it.
TensorDesc in_scratch(const TensorDesc& tensor) {
  TensorDesc copy = contiguous(is_low_precision(tensor.dtype) ? DType::f32 : tensor.dtype, tensor.shape);
  copy.blocked = tensor.blocked;
  return copy;
}

// Planes of the whole that lie in no one piece, because its channels are last.
struct PlaneRange {
  int64_t first, count;
};

PlaneRange planes_of(const TensorDesc& whole, const Tiling& tiling, int64_t first, int64_t size) {
  const int64_t planes = tiling.rule == Rule::planes ? 1 : whole.shape[1];
  return {first * planes, size * planes};
}

// ---- an operand or a result in scratch ----

struct UpcastOperand {
  TensorDesc whole = {};
  TensorDesc tile = {};       // of all pieces but the last
  TensorDesc last_tile = {};  // likewise where it is cut
  bool tiling = false;        // each piece has a copy, in the scratch of the thread
  bool sum = false;           // likewise, and is added to the others
  bool copied = false;        // one copy for all pieces, or of the sum
  int64_t offset = 0;         // of the piece
  int64_t shared = 0;         // of the copy

  const TensorDesc& of_tile(bool is_last) const { return is_last ? last_tile : tile; }
};

void load(const TensorDesc& tensor, const std::byte* from, std::byte* to, int threads) {
  if (tensor.channels_last) {
    return upcast_planes(tensor, from, 0, tensor.shape[0] * tensor.shape[1], reinterpret_cast<float*>(to), threads);
  }
  if (is_low_precision(tensor.dtype)) return upcast(tensor, from, reinterpret_cast<float*>(to), threads);
  if (!tensor.blocked && !tensor.is_contiguous()) return copy_to_contiguous(tensor, from, to);
  std::memcpy(to, from, static_cast<size_t>(tensor.bytes()));
}

void store(const TensorDesc& tensor, const std::byte* from, std::byte* to, int threads) {
  if (tensor.channels_last) {
    return downcast_planes(tensor, reinterpret_cast<const float*>(from), to, 0, tensor.shape[0] * tensor.shape[1],
                           threads);
  }
  if (is_low_precision(tensor.dtype)) {
    downcast(tensor.dtype, reinterpret_cast<const float*>(from), to, tensor.elements(), threads);
  } else {
    std::memcpy(to, from, static_cast<size_t>(tensor.bytes()));
  }
}

void add(const std::byte* from, std::byte* to, int64_t count, int threads) {
  const auto* x = reinterpret_cast<const float*>(from);
  auto* sum = reinterpret_cast<float*>(to);
  parallel(threads, count, kGrain,
           [&](int, int64_t begin, int64_t end) { add_row(sum + begin, x + begin, end - begin); });
}

// ---- the kernel ----

class UpcastWrapper {
 public:
  UpcastWrapper(const KernelCall& call, const Tiling& tiling, const std::function<Kernel(KernelCall)>& prepare)
      : tiling_(tiling), tiles_(choose_tiles(call, tiling)) {
    // Element by element the order of the elements is kept, as that of bit masks, and so it is in one piece.
    if (tiles_.number() == 1 && tiling.rule != Rule::elements) tiling_ = {};
    for (size_t i = 0; i < call.inputs.size(); ++i)
      inputs_.push_back(stage(call.inputs[i], contains(tiling_.inputs, i)));
    for (size_t k = 0; k < call.outputs.size(); ++k) {
      outputs_.push_back(call.requested[k] ? stage(call.outputs[k], contains(tiling_.outputs, k)) : UpcastOperand{});
      outputs_.back().sum = call.requested[k] && contains(tiling_.sums, k);
    }
    place(call.op.def);
    full_ = prepare(call_of_tile(call, false));
    last_ = is_even() ? full_ : prepare(call_of_tile(call, true));
    kernel_offset_ = own_bytes_;
    own_bytes_ += align_up(std::max(full_.scratch_bytes, last_.scratch_bytes), kAlignment);
  }

  Kernel finish() && {
    const int64_t bytes = shared_bytes_ + tiles_.parts * own_bytes_;
    return {bytes, [self = std::move(*this)](const Memory& memory) { return self.bind(memory); }};
  }

 private:
  bool is_even() const { return tiles_.count % tiles_.size == 0; }
  bool is_last(int64_t tile) const { return tile + 1 == tiles_.number(); }
  int threads() const { return tiles_.parts * tiles_.threads; }

  UpcastOperand stage(const TensorDesc& whole, bool tiling) const {
    UpcastOperand made{.whole = whole, .tile = whole, .last_tile = whole, .tiling = tiling};
    made.copied = !tiling && is_low_precision(whole.dtype);
    if (tiling) made.tile = tile_of(whole, tiling_, tiles_.size);
    if (tiling) made.last_tile = tile_of(whole, tiling_, tiles_.size_of(tiles_.number() - 1));
    return made;
  }

  // Gives the copies their places. A result that takes the place of an operand does so in scratch, too.
  void place(const program::OpDef& def) {
    for (UpcastOperand& input : inputs_) take(input);
    for (size_t k = 0; k < outputs_.size(); ++k) {
      const UpcastOperand* target = taken_by(def, k);
      if (target == nullptr) {
        take(outputs_[k]);
      } else {
        outputs_[k].offset = target->offset;
        outputs_[k].shared = target->shared;
      }
    }
  }

  const UpcastOperand* taken_by(const program::OpDef& def, size_t k) const {
    for (const program::Overwrite& overwrite : def.overwrites) {
      if (static_cast<size_t>(overwrite.output) == k) return &inputs_[static_cast<size_t>(overwrite.input)];
    }
    if (k != 0 || !outputs_[0].tiling) return nullptr;
    for (const int i : def.in_place) {
      if (static_cast<size_t>(i) >= inputs_.size()) continue;
      const UpcastOperand& input = inputs_[static_cast<size_t>(i)];
      if (input.tiling && input.whole.dtype == outputs_[0].whole.dtype &&
          input.whole.shape == outputs_[0].whole.shape) {
        return &input;
      }
    }
    return nullptr;
  }

  void take(UpcastOperand& stage) {
    if (stage.tiling || stage.sum) {
      stage.offset = own_bytes_;
      own_bytes_ += align_up(in_scratch(stage.tile).bytes(), kAlignment);
    }
    if (stage.copied) {
      stage.shared = shared_bytes_;
      shared_bytes_ += align_up(in_scratch(stage.whole).bytes(), kAlignment);
    }
  }

  KernelCall call_of_tile(KernelCall call, bool last) const {
    call.threads = tiles_.threads;
    call.least_scratch = call.least_scratch || kSparing * shared_bytes_ > call.spare_bytes;
    const auto give = [&](const UpcastOperand& stage, TensorDesc& tensor) {
      if (stage.tiling || stage.copied) tensor = in_scratch(stage.of_tile(last));
    };
    for (size_t i = 0; i < inputs_.size(); ++i) give(inputs_[i], call.inputs[i]);
    for (size_t k = 0; k < outputs_.size(); ++k) give(outputs_[k], call.outputs[k]);
    return call;
  }

  std::byte* own(const Memory& m, int part) const { return m.scratch + shared_bytes_ + part * own_bytes_; }

  // What the kernel sees of the memory, on one thread of those that run pieces.
  Memory memory_of(const Memory& m, int part) const {
    Memory inner = m;
    const auto give = [&](const UpcastOperand& stage, std::byte*& data) {
      if (stage.copied) data = m.scratch + stage.shared;
      if (stage.tiling || stage.sum) data = own(m, part) + stage.offset;
    };
    for (size_t i = 0; i < inputs_.size(); ++i) give(inputs_[i], inner.inputs[i]);
    for (size_t k = 0; k < outputs_.size(); ++k) give(outputs_[k], inner.outputs[k]);
    inner.scratch = own(m, part) + kernel_offset_;
    return inner;
  }

  Task bind(const Memory& m) const {
    std::vector<Task> full;
    std::vector<Task> last;
    for (int part = 0; part < tiles_.parts; ++part) {
      full.push_back(full_.bind(memory_of(m, part)));
      last.push_back(is_even() ? full.back() : last_.bind(memory_of(m, part)));
    }
    return [self = *this, m, full, last] {
      self.load_shared(m);
      parallel(self.tiles_.parts, self.tiles_.number(), 1, [&](int part, int64_t begin, int64_t end) {
        for (int64_t tile = begin; tile < end; ++tile) {
          self.run_tile(m, part, tile, (self.is_last(tile) ? last : full)[static_cast<size_t>(part)]);
        }
      });
      self.store_shared(m);
    };
  }

  void load_shared(const Memory& m) const {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].copied) load(inputs_[i].whole, m.inputs[i], m.scratch + inputs_[i].shared, threads());
    }
  }

  void store_shared(const Memory& m) const {
    for (size_t k = 0; k < outputs_.size(); ++k) {
      if (outputs_[k].copied) store(outputs_[k].whole, m.scratch + outputs_[k].shared, m.outputs[k], threads());
    }
  }

  // The part of a tensor that piece has, between memory and the scratch of the thread.
  void load_tile(const UpcastOperand& s, const std::byte* from, std::byte* to, int64_t tile) const {
    if (s.whole.channels_last && tiling_.rule != Rule::elements) {
      const PlaneRange planes = planes_of(s.whole, tiling_, tile * tiles_.size, tiles_.size_of(tile));
      upcast_planes(s.whole, from, planes.first, planes.count, reinterpret_cast<float*>(to), tiles_.threads);
    } else {
      load(s.of_tile(is_last(tile)), from + begin_of(s.whole, tiling_, tile * tiles_.size), to, tiles_.threads);
    }
  }

  void store_tile(const UpcastOperand& s, const std::byte* from, std::byte* to, int64_t tile) const {
    if (s.whole.channels_last && tiling_.rule != Rule::elements) {
      const PlaneRange planes = planes_of(s.whole, tiling_, tile * tiles_.size, tiles_.size_of(tile));
      downcast_planes(s.whole, reinterpret_cast<const float*>(from), to, planes.first, planes.count, tiles_.threads);
    } else {
      store(s.of_tile(is_last(tile)), from, to + begin_of(s.whole, tiling_, tile * tiles_.size), tiles_.threads);
    }
  }

  void run_tile(const Memory& m, int part, int64_t tile, const Task& task) const {
    std::byte* scratch = own(m, part);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].tiling) load_tile(inputs_[i], m.inputs[i], scratch + inputs_[i].offset, tile);
    }
    task();
    for (size_t k = 0; k < outputs_.size(); ++k) {
      const UpcastOperand& s = outputs_[k];
      if (s.tiling) store_tile(s, scratch + s.offset, m.outputs[k], tile);
      if (s.sum) add_sum(s, scratch + s.offset, s.copied ? m.scratch + s.shared : m.outputs[k], tile == 0);
    }
  }

  void add_sum(const UpcastOperand& s, const std::byte* from, std::byte* to, bool is_first) const {
    if (is_first) {
      std::memcpy(to, from, static_cast<size_t>(in_scratch(s.whole).bytes()));
    } else {
      add(from, to, s.whole.elements(), tiles_.threads);
    }
  }

  Tiling tiling_;
  Tiles tiles_;
  std::vector<UpcastOperand> inputs_;
  std::vector<UpcastOperand> outputs_;
  int64_t shared_bytes_ = 0;
  int64_t own_bytes_ = 0;  // of each thread that runs pieces
  int64_t kernel_offset_ = 0;
  Kernel full_;
  Kernel last_;
};

}  // namespace

Kernel upcast_wrapper(const KernelCall& call, const Tiling& tiling, const std::function<Kernel(KernelCall)>& prepare) {
  return UpcastWrapper(call, tiling.count == 0 ? Tiling{} : tiling, prepare).finish();
}

}  // namespace plimsoll::kernels
