#include "plimsoll/program/ops/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace plimsoll::program {
namespace {

constexpr std::array<std::string_view, 4> kWaiting = {"all_reduce", "reduce_scatter", "all_gather", "broadcast"};
constexpr std::array<std::string_view, 4> kStarting = {"all_reduce_start", "reduce_scatter_start", "all_gather_start",
                                                       "gather_start"};

bool is_among(const OpDef& def, const std::array<std::string_view, 4>& names) {
  return std::find(names.begin(), names.end(), def.name) != names.end();
}

bool makes_whole(const Op& op) { return op.def->name == "gather_start"; }

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

// Sums that are under way have no room to be upcast in.
void require_full_precision(const OpCall& call) {
  const DType dtype = call.input(0).dtype;
  call.require(dtype == DType::f32 || dtype == DType::f64, "sums over ranks are f32 or f64: cast it before");
}

std::vector<Type> infer_all_reduce_start(const OpCall& call) {
  require_full_precision(call);
  return infer_all_reduce(call);
}

std::vector<Type> infer_reduce_scatter_start(const OpCall& call) {
  require_full_precision(call);
  return infer_reduce_scatter(call);
}

std::vector<Type> infer_gather_start(const OpCall& call) {
  const Type whole{call.input(0).dtype, call.dims("shape")};
  call.require(whole.shape.elements().is_constant(), "what is gathered must have a known size");
  const Dims shard = {shard_elements(whole.shape, ranks_of(call))};
  call.require(call.shape(0) == shard, "shard must be the part of the shape that each rank has");
  return {whole};
}

std::vector<Type> infer_pack(const OpCall& call) {
  const int ranks = ranks_of(call);
  Dim each = 0;
  for (int i = 0; i < call.arity(); ++i) {
    call.require(call.input(i).dtype == call.input(0).dtype, "all must have one dtype");
    call.require(call.shape(i).elements().is_constant(), "what is packed must have a known size");
    each = each + shard_elements(call.shape(i), ranks);
  }
  return {{call.input(0).dtype, {each * ranks}}};
}

std::vector<Type> infer_take(const OpCall& call) {
  const int ranks = ranks_of(call);
  call.require(call.input(1).dtype == call.input(0).dtype && call.shape(1).rank() == 1,
               "pack must be of the dtype of x");
  const int64_t each = call.shape(1).elements().constant() / ranks;
  const int64_t at = call.integer("at");
  call.require(at >= 0 && at + shard_elements(call.shape(0), ranks).constant() <= each, "the pack must have it all");
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
Value all_reduce_start(Builder& b, Value x, int ranks) { return b.emit("all_reduce_start", {x}, {{"ranks", ranks}}); }
Going reduce_scatter_start(Builder& b, Value x, int ranks) {
  const Value shard = b.emit("reduce_scatter_start", {x}, {{"ranks", ranks}});
  return {shard, b.last_outputs()[1]};
}
Going all_gather_start(Builder& b, Value x, Value shard, int ranks) {
  return {b.emit("all_gather_start", {x, shard}, {{"ranks", ranks}})};
}
Going gather_start(Builder& b, Value shard, const Dims& shape, int ranks) {
  return {b.emit("gather_start", {shard}, {{"ranks", ranks}, {"shape", shape}})};
}
Value collective_finish(Builder& b, const Going& going, int ranks) {
  std::vector<Value> operands = {going.result};
  if (going.read) operands.push_back(going.read);
  const NamedAttribute of_ranks{"ranks", ranks};
  return b.emit("collective_finish", operands, std::span(&of_ranks, 1));
}
Value pack_shards(Builder& b, std::span<const Value> xs, int ranks) {
  const NamedAttribute of_ranks{"ranks", ranks};
  return b.emit("pack_shards", xs, std::span(&of_ranks, 1));
}
Value take_shards(Builder& b, Value x, Value pack, Dim at, int ranks) {
  return b.emit("take_shards", {x, pack}, {{"ranks", ranks}, {"at", at}});
}
Value clone(Builder& b, Value x) { return b.emit("clone", {x}); }

Dim shard_elements(const Dims& shape, int ranks) { return (shape.elements().constant() + ranks - 1) / ranks; }

bool starts_collective(const OpDef& def) { return is_among(def, kStarting); }

bool is_collective(const OpDef& def) { return is_among(def, kWaiting) || starts_collective(def); }

bool is_of_link(const OpDef& def) { return is_collective(def) || def.name == "collective_finish"; }

bool needs_ranks(const OpDef& def) { return is_of_link(def) || def.name == "own_shard"; }

int64_t collective_bytes(const Program& program, const Op& op) {
  return program[makes_whole(op) ? op.outputs[0] : op.inputs[0]].type.bytes().constant();
}

int collective_passes(const Op& op) { return op.def->name.starts_with("all_reduce") ? 2 : 1; }

std::string collectives_text(const Program& program) {
  std::string text;
  for (const Op& op : program.ops) {
    if (!is_collective(*op.def)) continue;
    text += fmt::format("{} {}\n", op.def->name, program[makes_whole(op) ? op.outputs[0] : op.inputs[0]].type.text());
  }
  return text;
}

int64_t sent_bytes(const Program& program) {
  int64_t sum = 0;
  for (const Op& op : program.ops) {
    if (!is_collective(*op.def)) continue;
    const int64_t ranks = OwnedOpCall(program, op)->integer("ranks");
    sum += collective_passes(op) * (ranks - 1) * collective_bytes(program, op) / ranks;
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
  OpDef start_reduce = def_of("all_reduce_start", {"x"}, {"going"});
  start_reduce.infer = infer_all_reduce_start;
  start_reduce.overwrites = {{.output = 0, .input = 0}};
  table.add(std::move(start_reduce));
  OpDef start_scatter = def_of("reduce_scatter_start", {"x"}, {"going", "read"});
  start_scatter.infer = infer_reduce_scatter_start;
  start_scatter.overwrites = {{.output = 1, .input = 0}};
  table.add(std::move(start_scatter));
  OpDef start_gather = def_of("all_gather_start", {"x", "shard"}, {"going"});
  start_gather.infer = infer_all_gather;
  start_gather.overwrites = {{.output = 0, .input = 0}};
  table.add(std::move(start_gather));
  OpDef start_new = def_of("gather_start", {"shard"}, {"going"});
  start_new.attributes.push_back({"shape", AttributeKind::dims, {}});
  start_new.infer = infer_gather_start;
  table.add(std::move(start_new));
  OpDef finish = def_of("collective_finish", {"going", "read?"}, {"done"});
  finish.infer = [](const OpCall& call) { return std::vector<Type>{call.input(0)}; };
  finish.overwrites = {{.output = 0, .input = 0}};
  table.add(std::move(finish));
  OpDef pack = def_of("pack_shards", {"xs..."}, {"pack"});
  pack.infer = infer_pack;
  table.add(std::move(pack));
  OpDef take = def_of("take_shards", {"x", "pack"}, {"y"});
  take.attributes.push_back({"at", AttributeKind::integer, {}});
  take.infer = infer_take;
  take.overwrites = {{.output = 0, .input = 0}};
  table.add(std::move(take));
  OpDef clone = def_of("clone", {"x"}, {"copy"});
  clone.attributes = {};
  clone.infer = [](const OpCall& call) { return std::vector<Type>{call.input(0)}; };
  table.add(std::move(clone));
}

}  // namespace plimsoll::program
