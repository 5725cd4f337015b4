#include "plimsoll/train/kept_tensors.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "plimsoll/base/error.h"
#include "plimsoll/program/op.h"
#include "plimsoll/program/ops/spilled.h"

namespace plimsoll::train {
namespace {

using program::Program;
using program::Value;

// Calls f(offset, bytes) for parts of [0, bytes).
template <class F>
void in_parts(int64_t bytes, int64_t part, const F& f) {
  for (int64_t offset = 0; offset < bytes; offset += part) f(offset, std::min(part, bytes - offset));
}

models::StoredSpec spec_of(const Program& program, Value value) {
  const program::ValueInfo& info = program[value];
  return {info.name, info.type.dtype, info.type.shape.shape()};
}

// Read into the arena at once where that is memory of the host.
void load_whole(run::Executor& executor, Value value, int64_t bytes, const ReadBytes& stored) {
  executor.fill_bytes(value, [&](std::span<std::byte> all) {
    in_parts(bytes, kLoadBytes, [&](int64_t offset, int64_t count) {
      stored(offset, all.subspan(static_cast<size_t>(offset), static_cast<size_t>(count)));
    });
  });
}

KeptTensor in_arena(run::Executor& executor, Value value) {
  KeptTensor tensor{spec_of(executor.program(), value), {}, {}};
  tensor.read = [&executor, value](int64_t offset, std::span<std::byte> into) {
    executor.read_part(value, offset, into);
  };
  tensor.load = [&executor, value, bytes = tensor.spec.bytes()](const ReadBytes& stored) {
    if (executor.device().traits().is_host) return load_whole(executor, value, bytes, stored);
    std::vector<std::byte> part(static_cast<size_t>(std::min(bytes, kLoadBytes)));
    in_parts(bytes, kLoadBytes, [&](int64_t offset, int64_t count) {
      const auto here = std::span(part).first(static_cast<size_t>(count));
      stored(offset, here);
      executor.write_part(value, offset, here);
    });
  };
  return tensor;
}

// Calls f(place in the file, place in the value) for elements from `first` of a file that holds the transpose of
// [rows, columns].
template <class F>
void for_each_transposed(const Shape& shape, int64_t first, int64_t count, const F& f) {
  int64_t row = first % shape[0];
  int64_t column = first / shape[0];
  for (int64_t i = 0; i < count; ++i) {
    f(i, row * shape[1] + column);
    if (++row == shape[0]) {
      row = 0;
      ++column;
    }
  }
}

// Of elements of `size` bytes, a multiple of which every part is.
KeptTensor transposed(run::Executor& executor, Value value) {
  KeptTensor tensor{spec_of(executor.program(), value), {}, {}};
  const Shape shape = tensor.spec.shape;
  const int64_t size = element_bytes(tensor.spec.dtype);
  tensor.spec.shape = Shape{shape[1], shape[0]};
  tensor.read = [&executor, value, shape, size](int64_t offset, std::span<std::byte> into) {
    executor.view_bytes(value, [&](std::span<const std::byte> all) {
      for_each_transposed(shape, offset / size, static_cast<int64_t>(into.size()) / size, [&](int64_t i, int64_t at) {
        std::memcpy(into.data() + i * size, all.data() + at * size, static_cast<size_t>(size));
      });
    });
  };
  tensor.load = [&executor, value, shape, size](const ReadBytes& stored) {
    executor.fill_bytes(value, [&](std::span<std::byte> all) {
      const auto bytes = static_cast<int64_t>(all.size());
      std::vector<std::byte> part(static_cast<size_t>(std::min(bytes, kLoadBytes)));
      in_parts(bytes, kLoadBytes, [&](int64_t offset, int64_t count) {
        stored(offset, std::span(part).first(static_cast<size_t>(count)));
        for_each_transposed(shape, offset / size, count / size, [&](int64_t i, int64_t at) {
          std::memcpy(all.data() + at * size, part.data() + i * size, static_cast<size_t>(size));
        });
      });
    });
  };
  return tensor;
}

KeptTensor in_file(models::StoredSpec spec, std::shared_ptr<SpillFile> file, int64_t place) {
  KeptTensor tensor{std::move(spec), {}, {}};
  tensor.read = [file, place](int64_t offset, std::span<std::byte> into) {
    file->wait(file->read(into.data(), static_cast<int64_t>(into.size()), place + offset));
  };
  tensor.load = [file, place, bytes = tensor.spec.bytes()](const ReadBytes& stored) {
    std::vector<std::byte> part(static_cast<size_t>(std::min(bytes, kLoadBytes)));
    in_parts(bytes, kLoadBytes, [&](int64_t offset, int64_t count) {
      stored(offset, std::span(part).first(static_cast<size_t>(count)));
      file->wait(file->write(part.data(), count, place + offset));
    });
  };
  return tensor;
}

// The states of one update that streams them: one after the other in its slot.
void add_spilled(const Program& program, const program::Op& op, std::vector<KeptTensor>& tensors) {
  const std::shared_ptr<SpillFile> file = kernels::spill_file();
  if (!file) throw ArgumentError("state lies in a spill file, and there is none: use it before the run is saved");
  std::vector<models::StoredSpec> specs;
  int64_t bytes = 0;
  for (const program::Overwrite& overwrite : op.def->overwrites) {
    if (overwrite.input == 0) continue;
    specs.push_back(spec_of(program, op.inputs[static_cast<size_t>(overwrite.input)]));
    bytes += specs.back().bytes();
  }
  int64_t place = file->slot(program::OwnedOpCall(program, op)->integer("slot"), bytes);
  for (models::StoredSpec& spec : specs) {
    const int64_t next = place + spec.bytes();
    tensors.push_back(in_file(std::move(spec), file, place));
    place = next;
  }
}

}  // namespace

std::vector<KeptTensor> kept_tensors(run::Session& session, const models::ModelInfo& model) {
  std::vector<KeptTensor> tensors;
  run::Executor& executor = session.executor();
  const Program& program = executor.program();
  const std::vector<Value> spilled = program::spilled_values(program);
  for (const auto* list : {&program.parameters, &program.state}) {
    for (const Value value : *list) {
      const program::ValueInfo& info = program[value];
      const bool is_spilled = std::find(spilled.begin(), spilled.end(), value) != spilled.end();
      if (is_spilled || info.category == Category::gradient) continue;
      const bool turned = info.type.shape.rank() == 2 && models::is_stored_transposed(model, info.name);
      tensors.push_back(turned ? transposed(executor, value) : in_arena(executor, value));
    }
  }
  const Program& updating = session.executor(session.executors() - 1).program();
  for (const program::Op& op : updating.ops) {
    if (op.def->name.ends_with("_spilled")) add_spilled(updating, op, tensors);
  }
  return tensors;
}

int64_t bytes_of(const std::vector<KeptTensor>& tensors) {
  int64_t bytes = 0;
  for (const KeptTensor& tensor : tensors) bytes += tensor.spec.bytes();
  return bytes;
}

}  // namespace plimsoll::train
