// Control flow that is known before the run, and sequences.
#include <fmt/format.h>

#include "plimsoll/models/onnx/node.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/ops/slice.h"

namespace plimsoll::models::onnx_import {
namespace {

namespace p = program;

const GraphProto& graph_of(NodeCall& call, const char* name) {
  const AttributeProto* found = call.attribute(name);
  if (found == nullptr || !found->has_g()) call.reject(fmt::format("there is no graph {}", name));
  return found->g();
}

void set_all(NodeCall& call, const std::vector<Tensor>& made) {
  for (size_t k = 0; k < made.size(); ++k) call.set(static_cast<int>(k), made[k]);
}

void import_if(NodeCall& call) {
  const bool holds = call.int_of(0, "the condition") != 0;
  set_all(call, call.in.run_graph(graph_of(call, holds ? "then_branch" : "else_branch"), {}));
}

Value stacked(NodeCall& call, const std::vector<Tensor>& parts, int axis) {
  std::vector<Value> values;
  for (const Tensor& part : parts) {
    const Value value = call.in.value(part);
    const Dims shape = call.b.shape(value);
    Dims wide;
    for (int i = 0; i <= shape.rank(); ++i) {
      if (i == axis) wide.push_back(1);
      if (i < shape.rank()) wide.push_back(shape[i]);
    }
    values.push_back(p::reshape(call.b, value, wide));
  }
  return values.size() == 1 ? values[0] : p::concat(call.b, values, axis);
}

Tensor known(HostTensor host, int type) { return {type, {}, std::make_shared<const HostTensor>(std::move(host))}; }

void import_loop(NodeCall& call) {
  constexpr int64_t kMostTurns = 4096;
  const GraphProto& body = graph_of(call, "body");
  const int64_t most = call.has(0) ? call.int_of(0, "the trip count") : kMostTurns;
  bool goes_on = !call.has(1) || call.int_of(1, "the condition") != 0;
  std::vector<Tensor> carried;
  for (int i = 2; i < call.inputs(); ++i) carried.push_back(call.tensor(i));
  std::vector<std::vector<Tensor>> scans;
  int64_t turn = 0;
  for (; turn < most && goes_on; ++turn) {
    call.require(turn < kMostTurns, "more turns of a loop than are unrolled");
    std::vector<Tensor> inputs = {
        known(host_scalar(ElementKind::integer, static_cast<double>(turn)), TensorProto::INT64),
        known(host_scalar(ElementKind::boolean, 1), TensorProto::BOOL)};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    std::vector<Tensor> made = call.in.run_graph(body, inputs);
    if (made.size() < carried.size() + 1) call.reject("the body of the loop has too few results");
    const HostTensor* next = call.in.host(made[0]);
    call.require(next != nullptr, "when the loop ends must be known before the run");
    if (next->ints.empty()) call.reject("the condition of the loop is no truth value");
    goes_on = next->ints[0].constant() != 0;
    for (size_t i = 0; i < carried.size(); ++i) carried[i] = made[i + 1];
    scans.resize(made.size() - carried.size() - 1);
    for (size_t i = 0; i < scans.size(); ++i) scans[i].push_back(made[carried.size() + 1 + i]);
  }
  set_all(call, carried);
  for (size_t i = 0; i < scans.size(); ++i) {
    const int place = static_cast<int>(carried.size() + i);
    if (call.wants(place)) call.set(place, stacked(call, scans[i], 0), scans[i][0].element_type);
  }
  call.require(turn > 0 || call.outputs() <= static_cast<int>(carried.size()), "a loop of no turns with scans");
}

void import_scan(NodeCall& call) {
  call.require(call.opset >= 9, "Scan before version 9");
  const GraphProto& body = graph_of(call, "body");
  const auto scanned = static_cast<int>(call.integer("num_scan_inputs", 1));
  const int states = call.inputs() - scanned;
  if (states < 0 || scanned < 1) call.reject("num_scan_inputs that makes no sense");
  const std::vector<int64_t> axes = call.integers("scan_input_axes");
  const std::vector<int64_t> directions = call.integers("scan_input_directions");
  const std::vector<int64_t> out_axes = call.integers("scan_output_axes");
  const std::vector<int64_t> out_directions = call.integers("scan_output_directions");
  const auto at = [](const std::vector<int64_t>& list, size_t i) { return i < list.size() ? list[i] : 0; };
  std::vector<Tensor> carried;
  for (int i = 0; i < states; ++i) carried.push_back(call.tensor(i));
  const int first_axis = call.axis(at(axes, 0), call.rank(states));
  const Dim turns = call.shape(states)[first_axis];
  call.require(turns.is_constant() && turns.constant() <= 4096, "as many turns as are known and few");
  std::vector<std::vector<Tensor>> scans;
  for (int64_t turn = 0; turn < turns.constant(); ++turn) {
    std::vector<Tensor> inputs = carried;
    for (int i = 0; i < scanned; ++i) {
      const Value x = call.value(states + i);
      const Dims shape = call.b.shape(x);
      const int axis = call.axis(at(axes, static_cast<size_t>(i)), shape.rank());
      const int64_t place = at(directions, static_cast<size_t>(i)) != 0 ? turns.constant() - 1 - turn : turn;
      const Value one = p::slice(call.b, x, p::Range{.axis = axis, .start = place, .end = place + 1});
      Dims rest;
      for (int k = 0; k < shape.rank(); ++k) {
        if (k != axis) rest.push_back(shape[k]);
      }
      inputs.push_back({call.element_type(states + i), p::reshape(call.b, one, rest)});
    }
    const std::vector<Tensor> made = call.in.run_graph(body, inputs);
    if (made.size() < carried.size()) call.reject("the body has too few results");
    for (size_t i = 0; i < carried.size(); ++i) carried[i] = made[i];
    scans.resize(made.size() - carried.size());
    for (size_t i = 0; i < scans.size(); ++i) scans[i].push_back(made[carried.size() + i]);
  }
  set_all(call, carried);
  for (size_t i = 0; i < scans.size(); ++i) {
    if (at(out_directions, i) != 0) std::reverse(scans[i].begin(), scans[i].end());
    const int rank = call.in.dims(scans[i][0]).rank() + 1;
    call.set(static_cast<int>(carried.size() + i), stacked(call, scans[i], call.axis(at(out_axes, i), rank)),
             scans[i][0].element_type);
  }
}

// ---- sequences: lists of tensors, known while the graph is imported ----

using Items = std::vector<Tensor>;

const Items& items_of(NodeCall& call, int i) {
  const Tensor& found = call.tensor(i);
  if (!found.items) call.reject(fmt::format("operand {} is no sequence", i));
  return *found.items;
}

void set_items(NodeCall& call, Items items) {
  call.set(0, Tensor{0, {}, {}, {}, std::make_shared<const Items>(std::move(items))});
}

size_t place_in(NodeCall& call, int operand, size_t count, bool at_end) {
  if (!call.has(operand)) return at_end ? count : count - 1;
  const int64_t given = call.int_of(operand, "the place");
  const int64_t place = given < 0 ? given + static_cast<int64_t>(count) : given;
  if (place < 0 || place > static_cast<int64_t>(count) - (at_end ? 0 : 1))
    call.reject("a place outside of the sequence");
  return static_cast<size_t>(place);
}

void import_sequence_construct(NodeCall& call) {
  Items items;
  for (int i = 0; i < call.inputs(); ++i) items.push_back(call.tensor(i));
  set_items(call, std::move(items));
}
void import_sequence_empty(NodeCall& call) { set_items(call, {}); }
void import_sequence_at(NodeCall& call) {
  const Items& items = items_of(call, 0);
  if (items.empty()) call.reject("an empty sequence");
  call.set(0, items[place_in(call, 1, items.size(), false)]);
}
void import_sequence_length(NodeCall& call) {
  call.set(0, host_scalar(ElementKind::integer, static_cast<double>(items_of(call, 0).size())), TensorProto::INT64);
}
void import_sequence_insert(NodeCall& call) {
  Items items = items_of(call, 0);
  const size_t place = place_in(call, 2, items.size(), true);
  items.insert(items.begin() + static_cast<std::ptrdiff_t>(place), call.tensor(1));
  set_items(call, std::move(items));
}
void import_sequence_erase(NodeCall& call) {
  Items items = items_of(call, 0);
  if (items.empty()) call.reject("an empty sequence");
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(place_in(call, 1, items.size(), false)));
  set_items(call, std::move(items));
}
void import_concat_from_sequence(NodeCall& call) {
  const Items& items = items_of(call, 0);
  if (items.empty()) call.reject("an empty sequence");
  const bool fresh = call.flag("new_axis");
  const int rank = call.in.dims(items[0]).rank() + (fresh ? 1 : 0);
  const int axis = call.axis(call.integer("axis", 0), rank);
  if (fresh) return call.set(0, stacked(call, items, axis), items[0].element_type);
  std::vector<Value> values;
  for (const Tensor& item : items) values.push_back(call.in.value(item));
  call.set(0, values.size() == 1 ? values[0] : p::concat(call.b, values, axis), items[0].element_type);
}
void import_split_to_sequence(NodeCall& call) {
  const int rank = call.rank(0);
  const int axis = call.axis(call.integer("axis", 0), rank);
  const int64_t size = call.shape(0)[axis].constant();
  std::vector<int64_t> sizes;
  if (call.has(1) && call.rank(1) > 0) {
    sizes = call.ints_of(1, "the sizes");
  } else {
    const int64_t each = call.has(1) ? call.int_of(1, "the size") : 1;
    if (each < 1) call.reject("parts of a size below 1");
    for (int64_t start = 0; start < size; start += each) sizes.push_back(std::min(each, size - start));
  }
  const bool drops = !call.has(1) && !call.flag("keepdims", true);
  Items items;
  int64_t start = 0;
  for (const int64_t each : sizes) {
    Value part = p::slice(call.b, call.value(0), p::Range{.axis = axis, .start = start, .end = start + each});
    if (drops) part = p::squeeze(call.b, part, {axis});
    items.push_back({call.element_type(0), part});
    start += each;
  }
  set_items(call, std::move(items));
}

void import_optional(NodeCall& call) {
  call.require(call.has(0), "an optional of nothing");
  call.set(0, call.tensor(0));
}
void import_optional_has(NodeCall& call) {
  call.set(0, host_scalar(ElementKind::boolean, call.has(0) ? 1 : 0), TensorProto::BOOL);
}

constexpr RuleEntry kControlRules[] = {
    {"If", import_if},
    {"Loop", import_loop},
    {"Scan", import_scan},
    {"SequenceConstruct", import_sequence_construct},
    {"SequenceEmpty", import_sequence_empty},
    {"SequenceAt", import_sequence_at},
    {"SequenceLength", import_sequence_length},
    {"SequenceInsert", import_sequence_insert},
    {"SequenceErase", import_sequence_erase},
    {"ConcatFromSequence", import_concat_from_sequence},
    {"SplitToSequence", import_split_to_sequence},
    {"Optional", import_optional},
    {"OptionalGetElement", import_optional},
    {"OptionalHasElement", import_optional_has},
};

}  // namespace

RuleFamily control_rules() { return {"", kControlRules}; }

}  // namespace plimsoll::models::onnx_import
