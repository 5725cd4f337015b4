#include "plimsoll/train/sharded_state.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "plimsoll/program/spread_parameters.h"

namespace plimsoll::train {
namespace {

using program::Program;
using program::Value;

Shape whole_shape_of(const Program& program, Value parameter) {
  const auto whole = program::whole_shape(program, parameter);
  return whole ? whole->shape() : program[parameter].type.shape.shape();
}

// What a tensor is held of in shards: a parameter itself, or state, "optimizer.conv1.weight.mean". Nothing where the
// rank has all of it.
std::optional<Shape> whole_of(const Program& program, std::string_view name, const Shape& held) {
  for (const Value parameter : program.parameters) {
    const std::string& of = program[parameter].name;
    const std::string start = "optimizer." + of + ".";
    const bool is_state = name.starts_with(start) && name.find('.', start.size()) == name.npos;
    if (!is_state && name != of) continue;
    const Shape whole = whole_shape_of(program, parameter);
    if (whole != held) return whole;
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
    const auto whole = whole_of(program, tensors[i].spec.name, tensors[i].spec.shape);
    if (whole) tensors[i] = make_whole(tensors[i], *whole, part);
  }
  return tensors;
}

}  // namespace plimsoll::train
