#include "plimsoll/program/ops/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace plimsoll::program {
namespace {

constexpr std::array<std::string_view, 4> kCollectives = {"all_reduce", "reduce_scatter", "all_gather", "broadcast"};

int ranks_of(const OpCall& call) {
  const int64_t ranks = call.integer("ranks");
  call.require(ranks >= 1 && ranks <= INT32_MAX, "ranks must be 1 at least");
  return static_cast<int>(ranks);
}

Type shard_type(const OpCall& call) {
  const int ranks = ranks_of(call);
  call.require(call.shape(0).elements().is_constant(), "what is spread over ranks must have a known size");
  return {call.input(0).dtype, {shard_elements(call.shape(0), ranks)}};
}

std::vector<Type> infer_all_reduce(const OpCall& call) {
  ranks_of(call);
  call.require_floating(0);
  return {call.input(0)};
}

std::vector<Type> infer_reduce_scatter(const OpCall& call) {
  call.require_floating(0);
  return {shard_type(call), call.input(0)};
}

std::vector<Type> infer_all_gather(const OpCall& call) {
  call.require(call.input(1) == shard_type(call), "shard must be the part of x that each rank has");
  return {call.input(0)};
}

std::vector<Type> infer_broadcast(const OpCall& call) {
  const int64_t root = call.integer("root");
  call.require(root >= 0 && root < ranks_of(call), "root must be a rank");
  return {call.input(0)};
}

OpDef def_of(std::string name, std::vector<std::string> inputs, std::vector<std::string> outputs) {
  OpDef def;
  def.name = std::move(name);
  def.inputs = std::move(inputs);
  def.outputs = std::move(outputs);
  def.attributes = {{"ranks", AttributeKind::integer, {}}};
  def.flops = [](const OpCall&) { return Dim(0); };
  return def;
}

}  // namespace

Value all_reduce(Builder& b, Value x, int ranks) { return b.emit("all_reduce", {x}, {{"ranks", ranks}}); }
Value reduce_scatter(Builder& b, Value x, int ranks) { return b.emit("reduce_scatter", {x}, {{"ranks", ranks}}); }
Value own_shard(Builder& b, Value x, int ranks) { return b.emit("own_shard", {x}, {{"ranks", ranks}}); }
Value all_gather(Builder& b, Value x, Value shard, int ranks) {
  return b.emit("all_gather", {x, shard}, {{"ranks", ranks}});
}
Value broadcast(Builder& b, Value x, int ranks, int root) {
  return b.emit("broadcast", {x}, {{"ranks", ranks}, {"root", root}});
}
Value clone(Builder& b, Value x) { return b.emit("clone", {x}); }

Dim shard_elements(const Dims& shape, int ranks) { return (shape.elements().constant() + ranks - 1) / ranks; }

bool is_collective(const OpDef& def) {
  return std::find(kCollectives.begin(), kCollectives.end(), def.name) != kCollectives.end();
}

bool needs_ranks(const OpDef& def) { return is_collective(def) || def.name == "own_shard"; }

std::string collectives_text(const Program& program) {
  std::string text;
  for (const Op& op : program.ops) {
    if (is_collective(*op.def)) text += fmt::format("{} {}\n", op.def->name, program[op.inputs[0]].type.text());
  }
  return text;
}

int64_t sent_bytes(const Program& program) {
  int64_t sum = 0;
  for (const Op& op : program.ops) {
    if (!is_collective(*op.def)) continue;
    const int64_t ranks = OwnedOpCall(program, op)->integer("ranks");
    const int64_t passes = op.def->name == "all_reduce" ? 2 : 1;
    sum += passes * (ranks - 1) * program[op.inputs[0]].type.bytes().constant() / ranks;
  }
  return sum;
}

int64_t collectives(const Program& program) {
  return std::count_if(program.ops.begin(), program.ops.end(), [](const Op& op) { return is_collective(*op.def); });
}

void register_collective(OpTable& table) {
  OpDef reduce = def_of("all_reduce", {"x"}, {"sum"});
  reduce.infer = infer_all_reduce;
  reduce.overwrites = {{.output = 0, .input = 0}};
  table.add(std::move(reduce));
  OpDef scatter = def_of("reduce_scatter", {"x"}, {"shard", "used_up"});
  scatter.infer = infer_reduce_scatter;
  scatter.overwrites = {{.output = 1, .input = 0}};
  table.add(std::move(scatter));
  OpDef own = def_of("own_shard", {"x"}, {"shard"});
  own.infer = [](const OpCall& call) { return std::vector<Type>{shard_type(call)}; };
  table.add(std::move(own));
  OpDef gather = def_of("all_gather", {"x", "shard"}, {"all"});
  gather.infer = infer_all_gather;
  gather.overwrites = {{.output = 0, .input = 0}};
  table.add(std::move(gather));
  OpDef broadcast = def_of("broadcast", {"x"}, {"same"});
  broadcast.attributes.push_back({"root", AttributeKind::integer, Attribute(0)});
  broadcast.infer = infer_broadcast;
  broadcast.overwrites = {{.output = 0, .input = 0}};
  table.add(std::move(broadcast));
  OpDef clone = def_of("clone", {"x"}, {"copy"});
  clone.attributes = {};
  clone.infer = [](const OpCall& call) { return std::vector<Type>{call.input(0)}; };
  table.add(std::move(clone));
}

}  // namespace plimsoll::program
