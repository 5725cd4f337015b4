// Optimizer updates whose state streams through scratch from the spill file and back: while a piece is updated, the
// next one is read and the one before it written.
#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/device.h"
#include "plimsoll/kernels/spill.h"

namespace plimsoll::kernels {
namespace {

constexpr int64_t kPiece = 1 << 20;  // elements
constexpr int kBuffers = 3;          // of each state: being read, updated, written

// Which operands are state: what is overwritten beside the parameter.
std::vector<int> state_operands(const program::OpDef& def) {
  std::vector<int> operands;
  for (const program::Overwrite& overwrite : def.overwrites) {
    if (overwrite.input > 0) operands.push_back(overwrite.input);
  }
  return operands;
}

// The plain update of `elements` of the parameter.
Kernel plain_update(const KernelCall& call, int64_t elements) {
  const std::string name = call.op.def.name.substr(0, call.op.def.name.rfind('_'));
  const program::OpDef& def = program::op_table().get(name);
  const auto attributes = call.op.attributes.first(call.op.attributes.size() - 1);  // without the slot
  const program::Type piece{DType::f32, {elements}};
  std::vector<program::Type> types(call.op.inputs.begin(), call.op.inputs.end());
  const program::OpCall op_call{def, types, attributes};
  KernelCall plain{op_call, call.inputs, call.outputs, call.requested, call.threads};
  for (size_t i = 0; i < types.size(); ++i) {
    if (call.inputs[i].shape != call.inputs[0].shape) continue;
    types[i] = piece;
    plain.inputs[i] = contiguous(DType::f32, {elements});
  }
  for (TensorDesc& output : plain.outputs) output = contiguous(DType::f32, {elements});
  return cpu_kernels().find(name)->prepare(plain);
}

// The update of one parameter, cut into pieces.
class Stream {
 public:
  // Pieces have at most `piece` elements.
  Stream(std::shared_ptr<SpillFile> file, int64_t elements, int64_t piece, int64_t slot, std::vector<int> states)
      : file_(std::move(file)), elements_(elements), piece_(piece), states_(std::move(states)) {
    slot_ = file_->slot(slot, elements * static_cast<int64_t>(states_.size() * sizeof(float)));
  }

  void add_piece(const Kernel& update, const program::OpDef& def, Memory memory, int64_t first, int64_t count) {
    Piece piece{first, count, {}, {}};
    std::byte* buffer = memory.scratch + buffer_of(pieces_.size());
    for (const int operand : states_) {
      piece.state.push_back(buffer);
      memory.inputs[static_cast<size_t>(operand)] = buffer;
      buffer += piece_ * static_cast<int64_t>(sizeof(float));
    }
    for (int i = 0; i < 2; ++i) memory.inputs[static_cast<size_t>(i)] += first * static_cast<int64_t>(sizeof(float));
    for (const program::Overwrite& overwrite : def.overwrites) {
      memory.outputs[static_cast<size_t>(overwrite.output)] = memory.inputs[static_cast<size_t>(overwrite.input)];
    }
    piece.update = update.bind(memory);
    pieces_.push_back(std::move(piece));
  }

  // Transfers are done in their order: a buffer is written out before it is read into again.
  void run() const {
    SpillFile::Job coming = read(0);
    SpillFile::Job last = coming;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const SpillFile::Job here = coming;
      if (i + 1 < pieces_.size()) coming = read(i + 1);
      file_->wait(here);
      pieces_[i].update();
      last = write(i);
    }
    file_->wait(last);
  }

 private:
  struct Piece {
    int64_t first;
    int64_t count;
    std::vector<std::byte*> state;
    Task update;
  };

  int64_t buffer_of(size_t piece) const {
    return static_cast<int64_t>(piece % kBuffers * states_.size() * sizeof(float)) * piece_;
  }
  int64_t offset_of(const Piece& piece, size_t state) const {
    return slot_ + (static_cast<int64_t>(state) * elements_ + piece.first) * static_cast<int64_t>(sizeof(float));
  }
  SpillFile::Job read(size_t i) const {
    SpillFile::Job job = 0;
    const Piece& piece = pieces_[i];
    for (size_t s = 0; s < piece.state.size(); ++s) {
      job = file_->read(piece.state[s], piece.count * static_cast<int64_t>(sizeof(float)), offset_of(piece, s));
    }
    return job;
  }
  SpillFile::Job write(size_t i) const {
    SpillFile::Job job = 0;
    const Piece& piece = pieces_[i];
    for (size_t s = 0; s < piece.state.size(); ++s) {
      job = file_->write(piece.state[s], piece.count * static_cast<int64_t>(sizeof(float)), offset_of(piece, s));
    }
    return job;
  }

  std::shared_ptr<SpillFile> file_;
  int64_t elements_;
  int64_t piece_;
  std::vector<int> states_;
  int64_t slot_ = 0;
  std::vector<Piece> pieces_;
};

Kernel spilled(const KernelCall& call) {
  for (const int i : {0, 1}) call.require_f32(i);
  if (!spill_file()) call.unsupported("its state lies in a spill file, and there is none: give --spill-dir");
  const std::vector<int> states = state_operands(call.op.def);
  const int64_t elements = call.in(0).elements();
  const int64_t whole = std::min(elements, kPiece);
  const int64_t rest = elements % kPiece;
  const Kernel update = plain_update(call, whole);
  const Kernel last = rest == 0 ? update : plain_update(call, rest);
  const int64_t scratch = kBuffers * static_cast<int64_t>(states.size() * sizeof(float)) * whole;
  return {scratch, [=, def = &call.op.def, slot = call.op.integer("slot")](const Memory& memory) -> Task {
            const auto stream = std::make_shared<Stream>(spill_file(), elements, whole, slot, states);
            for (int64_t first = 0; first < elements; first += kPiece) {
              const int64_t count = std::min(kPiece, elements - first);
              stream->add_piece(count == whole ? update : last, *def, memory, first, count);
            }
            return [stream] { stream->run(); };
          }};
}

}  // namespace

void register_spilled_cpu(KernelTable& table) {
  for (const char* name : {"momentum_spilled", "adam_spilled", "adamw_spilled", "lion_spilled"}) {
    table.add(name, {spilled});
  }
}

}  // namespace plimsoll::kernels
