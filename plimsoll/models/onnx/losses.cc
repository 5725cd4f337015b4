#include "plimsoll/models/onnx/losses.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plimsoll/base/error.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/layout.h"
#include "plimsoll/program/ops/loss.h"
#include "plimsoll/program/ops/reduce.h"

namespace plimsoll::models::onnx_import {
namespace {

constexpr std::array<std::string_view, 4> kLosses = {"cross-entropy", "lm", "mse", "bce"};

bool is_loss(std::string_view text) { return std::find(kLosses.begin(), kLosses.end(), text) != kLosses.end(); }

struct Wanted {
  std::string kind;  // empty: the output is the loss
  std::string output;
};

bool has_output(const ModelFile& file, const std::string& name) {
  const auto& outputs = file.proto.graph().output();
  return std::any_of(outputs.begin(), outputs.end(), [&](const auto& output) { return output.name() == name; });
}

Wanted parse_loss(const ModelFile& file, const std::string& text) {
  const std::string& first = file.proto.graph().output(0).name();
  if (is_loss(text)) return {text, first};
  if (has_output(file, text)) return {"", text};
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const std::string output = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (is_loss(kind) && has_output(file, output)) return {kind, output};
  throw ArgumentError(
      fmt::format("--loss {}: expected cross-entropy, lm, mse, bce, one of these with :OUTPUT, or an "
                  "output of {}",
                  quote(text), file.name));
}

std::string usual_loss(const Dims& shape) {
  if (shape.rank() == 3) return "lm";
  return shape.rank() == 2 ? "cross-entropy" : "mse";
}

// What an op of this name was made of, where the value is its result.
Value before(const program::Program& program, Value value, std::string_view op) {
  const int32_t produced_by = program::producers(program)[static_cast<size_t>(value.index)];
  if (produced_by < 0 || program.ops[static_cast<size_t>(produced_by)].def->name != op) return {};
  return program.ops[static_cast<size_t>(produced_by)].inputs[0];
}

Value cross_entropy_of(Net& net, Importer& importer, Value logits, int axis, std::vector<std::string>& notes) {
  for (const char* op : {"softmax", "log_softmax"}) {
    const Value plain = before(net.b.program(), logits, op);
    if (!plain) continue;
    notes.push_back(fmt::format("the loss is taken before the {} at the end of the graph", op));
    logits = plain;
    break;
  }
  const Dims shape = net.b.shape(logits);
  Dims lines;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != axis) lines.push_back(shape[i]);
  }
  const Value target = net.indices(importer.value_name("target"), lines);
  return program::cross_entropy(net.b, logits, target, {.axis = axis});
}

Value attach(Net& net, Importer& importer, const Wanted& wanted, Value x, std::vector<std::string>& notes) {
  const Dims shape = net.b.shape(x);
  if (wanted.kind == "cross-entropy" || wanted.kind == "lm") {
    if (shape.rank() < 2) {
      throw ArgumentError(fmt::format("--loss {}: {} is {}, expected a dimension of classes", wanted.kind,
                                      quote(wanted.output), shape.text()));
    }
    return cross_entropy_of(net, importer, x, wanted.kind == "lm" ? shape.rank() - 1 : 1, notes);
  }
  const auto target = [&] { return net.input(importer.value_name("target"), shape); };
  if (wanted.kind == "mse") return program::mse_loss(net.b, x, target());
  const Value logits = before(net.b.program(), x, "sigmoid");
  return logits ? program::bce_with_logits_loss(net.b, logits, target())
                : program::bce_with_logits_loss(net.b, x, target());
}

// As it is read after a run.
Value as_output(Net& net, Value value, bool as_real) {
  const program::ValueInfo& info = net.b.program()[value];
  if (as_real && !is_floating(info.type.dtype)) return program::cast(net.b, value, net.dtype());
  if (info.view && info.view->strides != program::row_major(info.type.shape)) return program::reorder(net.b, value);
  return value;
}

}  // namespace

Model with_loss(Net&& net, Importer& importer, const std::string& loss, std::vector<std::string>& notes) {
  const ModelFile& file = importer.file();
  if (file.proto.graph().output_size() == 0) throw InputError({.source = file.name}, "a graph without outputs");
  Wanted wanted;
  if (loss.empty()) {
    const std::string& first = file.proto.graph().output(0).name();
    wanted = {usual_loss(importer.dims(importer.output(first))), first};
    notes.push_back(fmt::format("the loss is {} of {}, by its shape: --loss chooses", wanted.kind, quote(first)));
  } else {
    wanted = parse_loss(file, loss);
  }
  const Value x = importer.value(importer.output(wanted.output));
  if (!is_floating(net.b.type(x).dtype)) {
    throw ArgumentError(fmt::format("the loss of {}: its elements are {}, expected reals", quote(wanted.output),
                                    name(net.b.type(x).dtype)));
  }
  Value made = wanted.kind.empty() ? x : attach(net, importer, wanted, x, notes);
  if (!net.b.shape(made).empty()) made = program::mean(net.b, made);
  if (net.b.type(made).dtype != DType::f32 && net.dtype() != DType::f64) made = program::cast(net.b, made, DType::f32);
  return std::move(net).finish(made, made);
}

Model with_outputs(Net&& net, Importer& importer, bool as_reals) {
  const ModelFile& file = importer.file();
  std::vector<Value> values;
  for (const ValueInfoProto& output : file.proto.graph().output()) {
    values.push_back(as_output(net, importer.value(importer.output(output.name())), as_reals));
  }
  if (values.empty()) throw InputError({.source = file.name}, "a graph without outputs");
  // What a graph passes through takes an op of its own, so that every output is made by one.
  for (size_t i = 0; i < values.size(); ++i) {
    const bool twice = std::find(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(i), values[i]) !=
                       values.begin() + static_cast<std::ptrdiff_t>(i);
    const bool is_source = program::producers(net.b.program())[static_cast<size_t>(values[i].index)] < 0;
    if (twice || is_source) values[i] = program::identity(net.b, values[i]);
  }
  Model model = std::move(net).finish(values[0]);
  model.program.outputs = values;
  return model;
}

}  // namespace plimsoll::models::onnx_import
