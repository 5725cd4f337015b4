#include "plimsoll/train/sharded_state.h"

#include <algorithm>
#include <optional>

#include "plimsoll/program/spread_parameters.h"

namespace plimsoll::train {
namespace {

using program::Program;
using program::Value;

// Of a parameter that is held in shards.
std::optional<Shape> spread_shape_of(const Program& program, Value parameter) {
  const auto whole = program::whole_shape(program, parameter);
  return whole ? std::optional(whole->shape()) : std::nullopt;
}

// What a tensor is a shard of: a parameter itself, or state, "optimizer.conv1.weight.mean". Nothing where the rank has
// all of it. A weight that the file holds transposed has another shape there, too, and is no shard.
std::optional<Shape> whole_of(const Program& program, const models::StoredSpec& held, int ranks) {
  for (const Value parameter : program.parameters) {
    const std::string& of = program[parameter].name;
    if (held.name == of) return spread_shape_of(program, parameter);
    const std::string start = "optimizer." + of + ".";
    if (!held.name.starts_with(start) || held.name.find('.', start.size()) != held.name.npos) continue;
    const Shape whole = spread_shape_of(program, parameter).value_or(program[parameter].type.shape.shape());
    const bool is_shard = held.shape == Shape{device::shard_elements(whole.elements(), ranks)};
    return is_shard && whole != held.shape ? std::optional(whole) : std::nullopt;
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

std::vector<KeptTensor> whole_state(std::vector<KeptTensor> tensors, const Program& program, program::Sharding sharding,
                                    const RankPart& part) {
  if (!part || sharding == program::Sharding::none) return tensors;
  for (KeptTensor& tensor : tensors) {
    if (const auto whole = whole_of(program, tensor.spec, part.ranks->ranks()))
      tensor = make_whole(tensor, *whole, part);
  }
  return tensors;
}

}  // namespace plimsoll::train
