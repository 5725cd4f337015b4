#include "plimsoll/train/sharded_state.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "plimsoll/program/spread_parameters.h"

namespace plimsoll::train {
namespace {

using program::Program;
using program::Value;

// What rank 0 asks the others for: bytes of a tensor.
struct Request {
  int64_t tensor = -1;  // -1: nothing more
  int64_t offset = 0;
  int64_t bytes = 0;
};

Request exchange(device::Communicator& ranks, Request request) {
  std::array<int64_t, 3> numbers = {request.tensor, request.offset, request.bytes};
  ranks.broadcast(std::as_writable_bytes(std::span(numbers)), 0);
  return {numbers[0], numbers[1], numbers[2]};
}

// A tensor whose elements lie in shards.
struct Sharded {
  std::shared_ptr<device::Communicator> ranks;
  int64_t elements = 0;
  int64_t element_size = 0;
  ReadBytes read_own;  // of this rank's shard

  // All ranks with the same bytes: those of other ranks than 0 go from their owners to all.
  void fetch(int64_t offset, std::span<std::byte> into) const {
    const auto end = offset + static_cast<int64_t>(into.size());
    for (int owner = 0; owner < ranks->ranks(); ++owner) {
      const device::Shard shard = device::shard_of(elements, ranks->ranks(), owner);
      const int64_t first = std::max(offset, shard.first * element_size);
      const int64_t last = std::min(end, shard.end * element_size);
      if (first >= last) continue;
      const auto piece = into.subspan(static_cast<size_t>(first - offset), static_cast<size_t>(last - first));
      if (owner == ranks->rank()) read_own(first - shard.first * element_size, piece);
      if (owner != 0) ranks->broadcast(piece, owner);
    }
  }
};

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

KeptTensor make_whole(const KeptTensor& shard, const Shape& shape, int64_t place, const RankPart& part) {
  KeptTensor whole{shard.spec, {}, {}};
  whole.spec.shape = shape;
  const Sharded sharded{part.ranks, shape.elements(), element_bytes(shard.spec.dtype), shard.read};
  whole.read = [sharded, place](int64_t offset, std::span<std::byte> into) {
    if (sharded.ranks->rank() == 0) exchange(*sharded.ranks, {place, offset, static_cast<int64_t>(into.size())});
    sharded.fetch(offset, into);
  };
  whole.load = [sharded, load = shard.load](const ReadBytes& stored) {
    const device::Shard own = device::shard_of(sharded.elements, sharded.ranks->ranks(), sharded.ranks->rank());
    const int64_t first = own.first * sharded.element_size;
    const int64_t bytes = own.size() * sharded.element_size;
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
    if (whole) tensors[i] = make_whole(tensors[i], *whole, static_cast<int64_t>(i), part);
  }
  return tensors;
}

void serve_state(const std::vector<KeptTensor>& tensors, const RankPart& part) {
  std::vector<std::byte> bytes;
  while (true) {
    const Request request = exchange(*part.ranks, {});
    if (request.tensor < 0) return;
    bytes.resize(static_cast<size_t>(request.bytes));
    tensors.at(static_cast<size_t>(request.tensor)).read(request.offset, bytes);
  }
}

void end_serving(const RankPart& part) { exchange(*part.ranks, {}); }

}  // namespace plimsoll::train
