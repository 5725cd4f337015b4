#include "plimsoll/train/sharded_state.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace plimsoll::train {
namespace {

using program::Program;
using program::Value;

// The parameter whose state `name` is, "optimizer.conv1.weight.mean", where it is held in shards.
std::optional<Value> parameter_of(const Program& program, std::string_view name, const Shape& held) {
  for (const Value parameter : program.parameters) {
    const program::ValueInfo& info = program[parameter];
    const std::string start = "optimizer." + info.name + ".";
    const bool is_its = name.starts_with(start) && name.find('.', start.size()) == name.npos;
    if (is_its && info.type.shape.shape() != held) return parameter;
  }
  return std::nullopt;
}

// A tensor whose elements are in shards.
KeptTensor make_whole(const KeptTensor& shard, const Shape& shape, const RankPart& part) {
  KeptTensor whole{shard.spec, {}, {}, true};
  whole.spec.shape = shape;
  const int64_t element_size = element_bytes(shard.spec.dtype);
  const device::Shard own = device::shard_of(shape.elements(), part.ranks->ranks(), part.ranks->rank());
  const int64_t first = own.first * element_size;
  const int64_t bytes = own.size() * element_size;
  whole.read = [read = shard.read, first](int64_t offset, std::span<std::byte> into) { read(offset - first, into); };
  whole.load = [first, bytes, load = shard.load](const ReadBytes& stored) {
    load([&](int64_t offset, std::span<std::byte> into) {  // what fills up the last shards is in no file
      std::fill(into.begin(), into.end(), std::byte{});
      const int64_t there = std::clamp<int64_t>(bytes - offset, 0, static_cast<int64_t>(into.size()));
      if (there > 0) stored(first + offset, into.first(static_cast<size_t>(there)));
    });
  };
  return whole;
}

}  // namespace

std::vector<KeptTensor> whole_state(std::vector<KeptTensor> tensors, const Program& program, const RankPart& part) {
  if (!part) return tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto parameter = parameter_of(program, tensors[i].spec.name, tensors[i].spec.shape);
    if (!parameter) continue;
    tensors[i] = make_whole(tensors[i], program[*parameter].type.shape.shape(), part);
  }
  return tensors;
}

}  // namespace plimsoll::train
