#include "plimsoll/kernels/cpu/support/staged.h"

#include <algorithm>
#include <cstring>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/copy.h"
#include "plimsoll/kernels/cpu/support/halves_copy.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/support/sums.h"
#include "plimsoll/kernels/cut.h"

namespace plimsoll::kernels {
namespace {

using Rule = Cut::Rule;

// Elements of the largest operand of a piece: some fit the second cache; enough for all threads; for a library.
constexpr int64_t kSmallPiece = 1 << 14;
constexpr int64_t kSharedPiece = 1 << 18;
constexpr int64_t kLargePiece = 1 << 18;

// Where copies of whole operands are more than this share of what is spare, the kernel is sparing with its own scratch.
constexpr int64_t kSparing = 4;

bool contains(const std::vector<int>& list, size_t place) {
  return std::find(list.begin(), list.end(), static_cast<int>(place)) != list.end();
}

// ---- how large pieces are ----

struct Pieces {
  int64_t count = 1;  // of what the cut counts
  int64_t size = 1;   // of all pieces but the last
  int parts = 1;      // pieces that run at once, each on one thread
  int threads = 1;    // for one piece

  int64_t number() const { return (count + size - 1) / size; }
  int64_t size_of(int64_t piece) const { return std::min(size, count - piece * size); }
};

// The most elements of a tensor that is listed, or that is not.
int64_t most_elements(const Use& use, const Cut& cut, bool listed) {
  int64_t most = 0;
  for (size_t i = 0; i < use.inputs.size(); ++i) {
    if (contains(cut.inputs, i) == listed) most = std::max(most, use.inputs[i].elements());
  }
  for (size_t k = 0; k < use.outputs.size(); ++k) {
    if (use.made[k] && contains(cut.outputs, k) == listed) most = std::max(most, use.outputs[k].elements());
  }
  return most;
}

int64_t granule(Rule rule) {
  return rule == Rule::elements ? kAlignment : rule == Rule::planes ? kChannelBlock : 1;  // whole bytes, whole blocks
}

// What is not cut is read by every piece, so a large piece is not smaller than that.
Pieces choose_pieces(const Use& use, const Cut& cut) {
  const int64_t elements = most_elements(use, cut, true);
  const bool apart = !cut.threaded && cut.sums.empty() && elements >= 2 * kGrain && cut.count >= use.threads;
  const int64_t large = std::max(cut.threaded ? kLargePiece : kSharedPiece, most_elements(use, cut, false));
  const int64_t least = apart ? use.threads : 1;
  const int64_t most = apart ? kSmallPiece : large;
  const int64_t wanted = std::clamp((elements + most - 1) / most, least, std::max(least, cut.count));
  const int64_t size = align_up((cut.count + wanted - 1) / wanted, granule(cut.rule));
  Pieces pieces{cut.count, std::min(size, cut.count), 1, use.threads};
  if (apart && pieces.number() > 1) std::swap(pieces.parts, pieces.threads);
  return pieces;
}

// ---- what a piece has of a tensor ----

Tensor piece_of(const Tensor& whole, const Cut& cut, int64_t size) {
  if (cut.rule == Rule::elements) {
    return contiguous(whole.dtype, {is_mask_of(whole, cut.count) ? (size + 7) / 8 : size});
  }
  std::vector<int64_t> dims(whole.shape.dims().begin(), whole.shape.dims().end());
  dims[0] = cut.rule == Rule::rows ? size : 1;
  if (cut.rule == Rule::planes) dims[1] = size;
  Tensor piece = whole;
  piece.shape = Shape(dims);
  return piece;
}

// Where it begins, in bytes.
int64_t begin_of(const Tensor& whole, const Cut& cut, int64_t first) {
  if (cut.rule == Rule::elements && is_mask_of(whole, cut.count)) return first / 8;
  const bool strided = cut.rule == Rule::rows && !whole.is_blocked();
  return first * (strided ? whole.stride(0) : whole.elements() / cut.count) * element_bytes(whole.dtype);
}

// As a kernel gets it.
Tensor in_scratch(const Tensor& tensor) {
  Tensor copy = contiguous(is_half(tensor.dtype) ? DType::f32 : tensor.dtype, tensor.shape);
  copy.layout = tensor.is_blocked() ? Layout::blocked16 : Layout::strided;
  return copy;
}

// Planes of the whole that lie in no one piece, because its channels are last.
struct PlaneRange {
  int64_t first, count;
};

PlaneRange planes_of(const Tensor& whole, const Cut& cut, int64_t first, int64_t size) {
  const int64_t planes = cut.rule == Rule::planes ? 1 : whole.shape[1];
  return {first * planes, size * planes};
}

// ---- an operand or a result in scratch ----

struct Stage {
  Tensor whole = {};
  Tensor piece = {};       // of all pieces but the last
  Tensor last_piece = {};  // likewise where it is cut
  bool cut = false;        // each piece has a copy, in the scratch of the thread
  bool sum = false;        // likewise, and is added to the others
  bool copied = false;     // one copy for all pieces, or of the sum
  int64_t offset = 0;      // of the piece
  int64_t shared = 0;      // of the copy

  const Tensor& of_piece(bool is_last) const { return is_last ? last_piece : piece; }
};

void load(const Tensor& tensor, const std::byte* from, std::byte* to, int threads) {
  if (tensor.is_channels_last()) {
    return widen_planes(tensor, from, 0, tensor.shape[0] * tensor.shape[1], reinterpret_cast<float*>(to), threads);
  }
  if (is_half(tensor.dtype)) return widen(tensor, from, reinterpret_cast<float*>(to), threads);
  if (!tensor.is_blocked() && !tensor.is_contiguous()) return copy_to_contiguous(tensor, from, to);
  std::memcpy(to, from, static_cast<size_t>(tensor.bytes()));
}

void store(const Tensor& tensor, const std::byte* from, std::byte* to, int threads) {
  if (tensor.is_channels_last()) {
    return narrow_planes(tensor, reinterpret_cast<const float*>(from), to, 0, tensor.shape[0] * tensor.shape[1],
                         threads);
  }
  if (is_half(tensor.dtype)) {
    narrow(tensor.dtype, reinterpret_cast<const float*>(from), to, tensor.elements(), threads);
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

class Staged {
 public:
  Staged(const Use& use, const Cut& cut, const std::function<Kernel(Use)>& prepare)
      : cut_(cut), pieces_(choose_pieces(use, cut)) {
    // Element by element the order of the elements is kept, as that of bit masks, and so it is in one piece.
    if (pieces_.number() == 1 && cut.rule != Rule::elements) cut_ = {};
    for (size_t i = 0; i < use.inputs.size(); ++i) inputs_.push_back(stage(use.inputs[i], contains(cut_.inputs, i)));
    for (size_t k = 0; k < use.outputs.size(); ++k) {
      outputs_.push_back(use.made[k] ? stage(use.outputs[k], contains(cut_.outputs, k)) : Stage{});
      outputs_.back().sum = use.made[k] && contains(cut_.sums, k);
    }
    place(use.call.def);
    full_ = prepare(use_of_piece(use, false));
    last_ = is_even() ? full_ : prepare(use_of_piece(use, true));
    kernel_offset_ = own_bytes_;
    own_bytes_ += align_up(std::max(full_.scratch_bytes, last_.scratch_bytes), kAlignment);
  }

  Kernel finish() && {
    const int64_t bytes = shared_bytes_ + pieces_.parts * own_bytes_;
    return {bytes, [self = std::move(*this)](const Memory& memory) { return self.bind(memory); }};
  }

 private:
  bool is_even() const { return pieces_.count % pieces_.size == 0; }
  bool is_last(int64_t piece) const { return piece + 1 == pieces_.number(); }
  int threads() const { return pieces_.parts * pieces_.threads; }

  Stage stage(const Tensor& whole, bool cut) const {
    Stage made{.whole = whole, .piece = whole, .last_piece = whole, .cut = cut};
    made.copied = !cut && is_half(whole.dtype);
    if (cut) made.piece = piece_of(whole, cut_, pieces_.size);
    if (cut) made.last_piece = piece_of(whole, cut_, pieces_.size_of(pieces_.number() - 1));
    return made;
  }

  // Gives the copies their places. A result that takes the place of an operand does so in scratch, too.
  void place(const program::OpDef& def) {
    for (Stage& input : inputs_) take(input);
    for (size_t k = 0; k < outputs_.size(); ++k) {
      const Stage* target = taken_by(def, k);
      if (target == nullptr) {
        take(outputs_[k]);
      } else {
        outputs_[k].offset = target->offset;
        outputs_[k].shared = target->shared;
      }
    }
  }

  const Stage* taken_by(const program::OpDef& def, size_t k) const {
    for (const program::Overwrite& overwrite : def.overwrites) {
      if (static_cast<size_t>(overwrite.output) == k) return &inputs_[static_cast<size_t>(overwrite.input)];
    }
    if (k != 0 || !outputs_[0].cut) return nullptr;
    for (const int i : def.in_place) {
      if (static_cast<size_t>(i) >= inputs_.size()) continue;
      const Stage& input = inputs_[static_cast<size_t>(i)];
      if (input.cut && input.whole.dtype == outputs_[0].whole.dtype && input.whole.shape == outputs_[0].whole.shape) {
        return &input;
      }
    }
    return nullptr;
  }

  void take(Stage& stage) {
    if (stage.cut || stage.sum) {
      stage.offset = own_bytes_;
      own_bytes_ += align_up(in_scratch(stage.piece).bytes(), kAlignment);
    }
    if (stage.copied) {
      stage.shared = shared_bytes_;
      shared_bytes_ += align_up(in_scratch(stage.whole).bytes(), kAlignment);
    }
  }

  Use use_of_piece(Use use, bool last) const {
    use.threads = pieces_.threads;
    use.least_scratch = use.least_scratch || kSparing * shared_bytes_ > use.spare_bytes;
    const auto give = [&](const Stage& stage, Tensor& tensor) {
      if (stage.cut || stage.copied) tensor = in_scratch(stage.of_piece(last));
    };
    for (size_t i = 0; i < inputs_.size(); ++i) give(inputs_[i], use.inputs[i]);
    for (size_t k = 0; k < outputs_.size(); ++k) give(outputs_[k], use.outputs[k]);
    return use;
  }

  std::byte* own(const Memory& m, int part) const { return m.scratch + shared_bytes_ + part * own_bytes_; }

  // What the kernel sees of the memory, on one thread of those that run pieces.
  Memory memory_of(const Memory& m, int part) const {
    Memory inner = m;
    const auto give = [&](const Stage& stage, std::byte*& data) {
      if (stage.copied) data = m.scratch + stage.shared;
      if (stage.cut || stage.sum) data = own(m, part) + stage.offset;
    };
    for (size_t i = 0; i < inputs_.size(); ++i) give(inputs_[i], inner.inputs[i]);
    for (size_t k = 0; k < outputs_.size(); ++k) give(outputs_[k], inner.outputs[k]);
    inner.scratch = own(m, part) + kernel_offset_;
    return inner;
  }

  Task bind(const Memory& m) const {
    std::vector<Task> full;
    std::vector<Task> last;
    for (int part = 0; part < pieces_.parts; ++part) {
      full.push_back(full_.bind(memory_of(m, part)));
      last.push_back(is_even() ? full.back() : last_.bind(memory_of(m, part)));
    }
    return [self = *this, m, full, last] {
      self.load_shared(m);
      parallel(self.pieces_.parts, self.pieces_.number(), 1, [&](int part, int64_t begin, int64_t end) {
        for (int64_t piece = begin; piece < end; ++piece) {
          self.run_piece(m, part, piece, (self.is_last(piece) ? last : full)[static_cast<size_t>(part)]);
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
  void load_piece(const Stage& s, const std::byte* from, std::byte* to, int64_t piece) const {
    if (s.whole.is_channels_last() && cut_.rule != Rule::elements) {
      const PlaneRange planes = planes_of(s.whole, cut_, piece * pieces_.size, pieces_.size_of(piece));
      widen_planes(s.whole, from, planes.first, planes.count, reinterpret_cast<float*>(to), pieces_.threads);
    } else {
      load(s.of_piece(is_last(piece)), from + begin_of(s.whole, cut_, piece * pieces_.size), to, pieces_.threads);
    }
  }

  void store_piece(const Stage& s, const std::byte* from, std::byte* to, int64_t piece) const {
    if (s.whole.is_channels_last() && cut_.rule != Rule::elements) {
      const PlaneRange planes = planes_of(s.whole, cut_, piece * pieces_.size, pieces_.size_of(piece));
      narrow_planes(s.whole, reinterpret_cast<const float*>(from), to, planes.first, planes.count, pieces_.threads);
    } else {
      store(s.of_piece(is_last(piece)), from, to + begin_of(s.whole, cut_, piece * pieces_.size), pieces_.threads);
    }
  }

  void run_piece(const Memory& m, int part, int64_t piece, const Task& task) const {
    std::byte* scratch = own(m, part);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].cut) load_piece(inputs_[i], m.inputs[i], scratch + inputs_[i].offset, piece);
    }
    task();
    for (size_t k = 0; k < outputs_.size(); ++k) {
      const Stage& s = outputs_[k];
      if (s.cut) store_piece(s, scratch + s.offset, m.outputs[k], piece);
      if (s.sum) add_sum(s, scratch + s.offset, s.copied ? m.scratch + s.shared : m.outputs[k], piece == 0);
    }
  }

  void add_sum(const Stage& s, const std::byte* from, std::byte* to, bool is_first) const {
    if (is_first) {
      std::memcpy(to, from, static_cast<size_t>(in_scratch(s.whole).bytes()));
    } else {
      add(from, to, s.whole.elements(), pieces_.threads);
    }
  }

  Cut cut_;
  Pieces pieces_;
  std::vector<Stage> inputs_;
  std::vector<Stage> outputs_;
  int64_t shared_bytes_ = 0;
  int64_t own_bytes_ = 0;  // of each thread that runs pieces
  int64_t kernel_offset_ = 0;
  Kernel full_;
  Kernel last_;
};

}  // namespace

Kernel staged(const Use& use, const Cut& cut, const std::function<Kernel(Use)>& prepare) {
  return Staged(use, cut.count == 0 ? Cut{} : cut, prepare).finish();
}

}  // namespace plimsoll::kernels
