// Recurrent layers, unrolled over as many steps as are known.
#include <fmt/format.h>

#include <cmath>

#include "plimsoll/models/onnx/node.h"
#include "plimsoll/program/ops/constant.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/linear.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/ops/slice.h"

namespace plimsoll::models::onnx_import {
namespace {

namespace p = program;

// Row `i` of a tensor of weights of all directions, without that dimension.
Value direction_of(NodeCall& call, int operand, int direction) {
  const Value all = call.value(operand);
  const Dims shape = call.b.shape(all);
  Dims rest;
  for (int i = 1; i < shape.rank(); ++i) rest.push_back(shape[i]);
  const Value one = p::slice(call.b, all, p::Range{.axis = 0, .start = direction, .end = direction + 1});
  return p::reshape(call.b, one, rest);
}

// The weights of one direction.
struct Cell {
  Value w, r;       // [gates * hidden, in], [gates * hidden, hidden]
  Value wb, rb;     // biases, or nothing
  Value h, c;       // states
  Value peepholes;  // [3 * hidden], or nothing
  int64_t hidden = 0;
  double clip = 0;            // 0: none
  bool couples = false;       // LSTM: forget = 1 - input
  bool resets_after = false;  // GRU
  std::vector<std::string> activations;
};

Value activated(NodeCall& call, const Cell& cell, size_t i, Value x) {
  Builder& b = call.b;
  if (cell.clip > 0) x = p::clamp(b, x, -cell.clip, cell.clip);
  const std::string& how = cell.activations[i];
  if (how == "Sigmoid") return p::sigmoid(b, x);
  if (how == "Tanh") return p::tanh(b, x);
  if (how == "Relu") return p::relu(b, x);
  call.unsupported(fmt::format("the activation {}", how));
}

// Part `i` of [batch, gates * hidden].
Value gate(Builder& b, Value all, int64_t i, int64_t hidden) {
  const int axis = b.shape(all).rank() - 1;
  return p::slice(b, all, p::Range{.axis = axis, .start = i * hidden, .end = (i + 1) * hidden});
}

Value step_rnn(NodeCall& call, Cell& cell, Value x) {
  Builder& b = call.b;
  const Value sum = p::add(b, p::linear(b, x, cell.w, cell.wb), p::linear(b, cell.h, cell.r, cell.rb));
  return cell.h = activated(call, cell, 0, sum);
}

Value step_gru(NodeCall& call, Cell& cell, Value x) {
  Builder& b = call.b;
  const int64_t n = cell.hidden;
  const Value of_x = p::linear(b, x, cell.w, cell.wb);
  const Value of_h = p::linear(b, cell.h, cell.r, cell.rb);
  const Value z = activated(call, cell, 0, p::add(b, gate(b, of_x, 0, n), gate(b, of_h, 0, n)));
  const Value r = activated(call, cell, 0, p::add(b, gate(b, of_x, 1, n), gate(b, of_h, 1, n)));
  Value remembered;
  if (cell.resets_after) {
    remembered = p::mul(b, r, gate(b, of_h, 2, n));
  } else {
    const Value rows = p::slice(b, cell.r, p::Range{.axis = 0, .start = 2 * n, .end = 3 * n});
    const Value bias = cell.rb ? gate(b, cell.rb, 2, n) : Value{};
    remembered = p::linear(b, p::mul(b, r, cell.h), rows, bias);
  }
  const Value fresh = activated(call, cell, 1, p::add(b, gate(b, of_x, 2, n), remembered));
  const Value kept = p::mul(b, z, p::sub(b, cell.h, fresh));  // (1 - z) * fresh + z * h
  return cell.h = p::add(b, fresh, kept);
}

Value step_lstm(NodeCall& call, Cell& cell, Value x) {
  Builder& b = call.b;
  const int64_t n = cell.hidden;
  const Value all = p::add(b, p::linear(b, x, cell.w, cell.wb), p::linear(b, cell.h, cell.r, cell.rb));
  const auto peeped = [&](Value sum, int64_t i, Value state) {
    return cell.peepholes ? p::add(b, sum, p::mul(b, gate(b, cell.peepholes, i, n), state)) : sum;
  };
  const Value input = activated(call, cell, 0, peeped(gate(b, all, 0, n), 0, cell.c));
  const Value forget = cell.couples ? p::affine(b, input, {.scale = -1, .shift = 1})
                                    : activated(call, cell, 0, peeped(gate(b, all, 2, n), 2, cell.c));
  const Value fresh = activated(call, cell, 1, gate(b, all, 3, n));
  cell.c = p::add(b, p::mul(b, forget, cell.c), p::mul(b, input, fresh));
  const Value output = activated(call, cell, 0, peeped(gate(b, all, 1, n), 1, cell.c));
  return cell.h = p::mul(b, output, activated(call, cell, 2, cell.c));
}

struct Kind {
  int64_t gates;
  std::vector<std::string> activations;
  Value (*step)(NodeCall&, Cell&, Value);
  bool has_cell = false;
};

Cell make_cell(NodeCall& call, const Kind& kind, int direction, Dim batch) {
  Builder& b = call.b;
  Cell cell;
  cell.w = direction_of(call, 1, direction);
  cell.r = direction_of(call, 2, direction);
  cell.hidden = call.shape(2)[2].constant();
  if (call.has(3)) {
    const Value biases = direction_of(call, 3, direction);
    const int64_t rows = kind.gates * cell.hidden;
    cell.wb = p::slice(b, biases, p::Range{.axis = 0, .start = 0, .end = rows});
    cell.rb = p::slice(b, biases, p::Range{.axis = 0, .start = rows, .end = 2 * rows});
  }
  const auto state = [&](int operand) {
    if (call.has(operand)) return direction_of(call, operand, direction);
    return p::fill(b, 0, {call.in.net.dtype(), {batch, cell.hidden}});
  };
  cell.h = state(5);
  if (kind.has_cell) {
    cell.c = state(6);
    if (call.has(7)) cell.peepholes = direction_of(call, 7, direction);
  }
  cell.clip = call.real("clip", 0);
  cell.couples = call.flag("input_forget");
  cell.resets_after = call.flag("linear_before_reset");
  cell.activations = kind.activations;
  if (const AttributeProto* given = call.attribute("activations"); given != nullptr && given->strings_size() > 0) {
    for (size_t i = 0; i < cell.activations.size(); ++i) {
      const auto at = static_cast<size_t>(direction) * cell.activations.size() + i;
      if (at < static_cast<size_t>(given->strings_size())) cell.activations[i] = given->strings(static_cast<int>(at));
    }
  }
  return cell;
}

Value with_dim(Builder& b, Value x, int axis) {
  Dims dims;
  const Dims shape = b.shape(x);
  for (int i = 0; i <= shape.rank(); ++i) {
    if (i == axis) dims.push_back(1);
    if (i < shape.rank()) dims.push_back(shape[i]);
  }
  return p::reshape(b, x, dims);
}

Value joined(Builder& b, const std::vector<Value>& parts, int axis) {
  return parts.size() == 1 ? parts[0] : p::concat(b, parts, axis);
}

void run_recurrent(NodeCall& call, const Kind& kind) {
  Builder& b = call.b;
  constexpr int64_t kMostSteps = 2048;
  const bool batch_first = call.integer("layout", 0) != 0;
  call.require(!batch_first, "layout 1");
  call.require(!call.has(4), "sequences of different lengths");
  const Dims shape = call.shape(0);
  if (shape.rank() != 3) call.reject("the operand must have three dimensions");
  call.require(shape[0].is_constant() && shape[0].constant() <= kMostSteps, "as many steps as are known and few");
  const int64_t steps = shape[0].constant();
  const std::string direction = call.text("direction", "forward");
  const int directions = direction == "bidirectional" ? 2 : 1;
  std::vector<std::vector<Value>> results(static_cast<size_t>(steps));  // of each step: of each direction
  std::vector<Value> last_h;
  std::vector<Value> last_c;
  for (int d = 0; d < directions; ++d) {
    Cell cell = make_cell(call, kind, d, shape[1]);
    const bool backwards = direction == "reverse" || d == 1;
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t at = backwards ? steps - 1 - i : i;
      const Value x = p::slice(b, call.value(0), p::Range{.axis = 0, .start = at, .end = at + 1});
      const Value h = kind.step(call, cell, p::reshape(b, x, {shape[1], shape[2]}));
      if (call.wants(0)) results[static_cast<size_t>(at)].push_back(with_dim(b, h, 0));
    }
    last_h.push_back(with_dim(b, cell.h, 0));
    if (kind.has_cell) last_c.push_back(with_dim(b, cell.c, 0));
  }
  if (call.wants(0)) {
    std::vector<Value> lines;
    for (const auto& of_step : results) lines.push_back(with_dim(b, joined(b, of_step, 0), 0));
    call.set_same(joined(b, lines, 0));
  }
  call.set(1, joined(b, last_h, 0), call.element_type(0));
  if (kind.has_cell) call.set(2, joined(b, last_c, 0), call.element_type(0));
}

void import_rnn(NodeCall& call) { run_recurrent(call, {1, {"Tanh"}, step_rnn}); }
void import_gru(NodeCall& call) { run_recurrent(call, {3, {"Sigmoid", "Tanh"}, step_gru}); }
void import_lstm(NodeCall& call) { run_recurrent(call, {4, {"Sigmoid", "Tanh", "Tanh"}, step_lstm, true}); }

constexpr RuleEntry kRnnRules[] = {
    {"RNN", import_rnn},
    {"GRU", import_gru},
    {"LSTM", import_lstm},
};

}  // namespace

RuleFamily rnn_rules() { return {"", kRnnRules}; }

}  // namespace plimsoll::models::onnx_import
