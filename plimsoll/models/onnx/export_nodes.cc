#include "plimsoll/models/onnx/export_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <unordered_map>

#include "plimsoll/base/error.h"

namespace plimsoll::models::onnx_import {
namespace {

// One op with its operands' names.
struct OpWriter {
  NodeWriter& w;
  const program::Op& op;

  std::string in(size_t i) const { return w.name(op.inputs[i]); }
  std::string out(size_t k = 0) const { return w.name(op.outputs[k]); }
  bool has(size_t i) const { return i < op.inputs.size() && op.inputs[i]; }
  const Dims& shape(size_t i) const { return w.shape(op.inputs[i]); }
  const Dims& result() const { return w.shape(op.outputs[0]); }

  const program::Attribute& attribute(std::string_view name) const {
    for (size_t i = 0; i < op.def->attributes.size(); ++i) {
      if (op.def->attributes[i].name == name) return op.attributes[i];
    }
    throw UnsupportedError(fmt::format("{} has no attribute {}", op.def->name, name));
  }
  std::vector<int64_t> numbers(std::string_view name) const { return numbers_of(attribute(name).dims()); }
  int64_t integer(std::string_view name) const { return attribute(name).dim().constant(); }
  double real(std::string_view name) const { return attribute(name).real(); }

  static std::vector<int64_t> numbers_of(const Dims& dims) {
    std::vector<int64_t> numbers;
    for (const Dim dim : dims) numbers.push_back(dim.constant());
    return numbers;
  }
};

void set(NodeProto* node, const char* name, int64_t value) {
  AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(AttributeProto::INT);
  attribute->set_i(value);
}
void set(NodeProto* node, const char* name, double value) {
  AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(AttributeProto::FLOAT);
  attribute->set_f(static_cast<float>(value));
}
void set(NodeProto* node, const char* name, const std::vector<int64_t>& values) {
  AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(AttributeProto::INTS);
  for (const int64_t value : values) attribute->add_ints(value);
}

using Form = void (*)(OpWriter&);

std::vector<std::string> all_inputs(const OpWriter& o) {
  std::vector<std::string> names;
  for (size_t i = 0; i < o.op.inputs.size(); ++i) names.push_back(o.in(i));
  return names;
}

template <const char* const& Op>
void same(OpWriter& o) {
  o.w.node(Op, all_inputs(o), {o.out()});
}

// One number for all dimensions, one for each, or for padding one for each side.
std::vector<int64_t> for_each(std::vector<int64_t> given, size_t count, int64_t otherwise) {
  if (given.empty()) return std::vector<int64_t>(count, otherwise);
  if (given.size() == 1) return std::vector<int64_t>(count, given[0]);
  if (given.size() * 2 == count) given.insert(given.end(), given.begin(), given.end());
  return given;
}

void set_windows(OpWriter& o, NodeProto* node, const std::vector<int64_t>& kernel) {
  const size_t spatial = kernel.size();
  set(node, "kernel_shape", kernel);
  const std::vector<int64_t> stride = o.numbers("stride");
  const bool is_pool = o.op.def->name.ends_with("pool");
  set(node, "strides", stride.empty() && is_pool ? kernel : for_each(stride, spatial, 1));
  set(node, "pads", for_each(o.numbers("padding"), 2 * spatial, 0));
  const std::vector<int64_t> dilation = for_each(o.numbers("dilation"), spatial, 1);
  if (o.op.def->name != "avg_pool") return set(node, "dilations", dilation);
  const bool is_dense = std::all_of(dilation.begin(), dilation.end(), [](int64_t one) { return one == 1; });
  if (!is_dense) throw UnsupportedError("export: an average pool with dilation, which opset 17 has not");
}

std::vector<int64_t> spatial_of(const Dims& dims) {
  std::vector<int64_t> all = OpWriter::numbers_of(dims);
  return {all.begin() + 2, all.end()};
}

void write_conv(OpWriter& o) {
  NodeProto* node = o.w.node("Conv", all_inputs(o), {o.out()});
  set_windows(o, node, spatial_of(o.shape(1)));
  set(node, "group", o.integer("groups"));
}
void write_conv_transpose(OpWriter& o) {
  NodeProto* node = o.w.node("ConvTranspose", all_inputs(o), {o.out()});
  const std::vector<int64_t> kernel = spatial_of(o.shape(1));
  set_windows(o, node, kernel);
  set(node, "output_padding", for_each(o.numbers("output_padding"), kernel.size(), 0));
  set(node, "group", o.integer("groups"));
}
void write_pool(OpWriter& o) {
  const bool is_max = o.op.def->name == "max_pool";
  NodeProto* node = o.w.node(is_max ? "MaxPool" : "AveragePool", {o.in(0)}, {o.out()});
  set_windows(o, node, for_each(o.numbers("kernel"), static_cast<size_t>(o.shape(0).rank() - 2), 1));
  set(node, "ceil_mode", int64_t{o.attribute("ceil_mode").flag()});
  if (!is_max) set(node, "count_include_pad", int64_t{o.attribute("count_include_pad").flag()});
}
// Windows of one size, where the sizes divide.
void write_adaptive_pool(OpWriter& o) {
  const std::vector<int64_t> from = spatial_of(o.shape(0));
  const std::vector<int64_t> to = spatial_of(o.result());
  std::vector<int64_t> kernel;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0 || from[i] % to[i] != 0)
      throw UnsupportedError("export: an adaptive pool whose windows differ in size");
    kernel.push_back(from[i] / to[i]);
  }
  NodeProto* node = o.w.node("AveragePool", {o.in(0)}, {o.out()});
  set(node, "kernel_shape", kernel);
  set(node, "strides", kernel);
}

void write_batch_norm(OpWriter& o) {
  if (!o.has(4)) throw UnsupportedError("export: a batch normalisation without weight and bias");
  const std::vector<std::string> operands = {o.in(0), o.in(3), o.in(4), o.in(1),
                                             o.in(2)};  // statistics stand first here
  set(o.w.node("BatchNormalization", operands, {o.out()}), "epsilon", o.real("eps"));
}
void write_layer_norm(OpWriter& o) {
  NodeProto* node = o.w.node("LayerNormalization", all_inputs(o), {o.out()});
  set(node, "axis", o.integer("axis"));
  set(node, "epsilon", o.real("eps"));
}

void write_linear(OpWriter& o) {
  if (o.shape(0).rank() == 2) {
    set(o.w.node("Gemm", all_inputs(o), {o.out()}), "transB", int64_t{1});
    return;
  }
  const std::string turned = o.w.fresh(o.out());
  const std::string product = o.has(2) ? o.w.fresh(o.out()) : o.out();
  set(o.w.node("Transpose", {o.in(1)}, {turned}), "perm", std::vector<int64_t>{1, 0});
  o.w.node("MatMul", {o.in(0), turned}, {product});
  if (o.has(2)) o.w.node("Add", {product, o.in(2)}, {o.out()});
}

std::string transposed_last(OpWriter& o, size_t i, bool turns) {
  if (!turns) return o.in(i);
  std::vector<int64_t> perm;
  const int rank = o.shape(i).rank();
  for (int k = 0; k < rank; ++k) perm.push_back(k);
  std::swap(perm[static_cast<size_t>(rank - 1)], perm[static_cast<size_t>(rank - 2)]);
  const std::string turned = o.w.fresh(o.out());
  set(o.w.node("Transpose", {o.in(i)}, {turned}), "perm", perm);
  return turned;
}
void write_matmul(OpWriter& o) {
  const std::string a = transposed_last(o, 0, o.attribute("transpose_a").flag());
  const std::string b = transposed_last(o, 1, o.attribute("transpose_b").flag());
  o.w.node("MatMul", {a, b}, {o.out()});
}

void write_attention(OpWriter& o) {
  const Dims q = o.shape(0);
  double scale = o.real("scale");
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(q[3].constant()));
  const std::string keys = transposed_last(o, 1, true);
  const std::string product = o.w.fresh(o.out());
  std::string scores = o.w.fresh(o.out());
  o.w.node("MatMul", {o.in(0), keys}, {product});
  o.w.node("Mul", {product, o.w.real(scale)}, {scores});
  const auto add_mask = [&](const std::string& mask) {
    const std::string masked = o.w.fresh(o.out());
    o.w.node("Add", {scores, mask}, {masked});
    scores = masked;
  };
  if (o.has(3)) add_mask(o.in(3));
  if (o.attribute("causal").flag()) {  // a triangle of the lowest numbers above the diagonal
    const std::string whole = o.w.fresh(o.out());
    const std::string shape = o.w.integers({q[2].constant(), o.shape(1)[2].constant()});
    const std::string triangle = o.w.fresh(o.out());
    o.w.node("Expand", {o.w.real(std::numeric_limits<float>::lowest()), shape}, {whole});
    set(o.w.node("Trilu", {whole, o.w.integers({1})}, {triangle}), "upper", int64_t{1});
    add_mask(triangle);
  }
  const std::string weights = o.w.fresh(o.out());
  set(o.w.node("Softmax", {scores}, {weights}), "axis", int64_t{-1});
  o.w.node("MatMul", {weights, o.in(2)}, {o.out()});
}

void write_gelu(OpWriter& o) {
  const auto step = [&](const char* op, const std::vector<std::string>& inputs) {
    const std::string made = o.w.fresh(o.out());
    o.w.node(op, inputs, {made});
    return made;
  };
  std::string inner;
  if (o.op.def->name == "gelu") {
    inner = step("Erf", {step("Div", {o.in(0), o.w.real(std::numbers::sqrt2)})});
  } else {
    const std::string cube = step("Pow", {o.in(0), o.w.real(3)});
    const std::string sum = step("Add", {o.in(0), step("Mul", {cube, o.w.real(0.044715)})});
    inner = step("Tanh", {step("Mul", {sum, o.w.real(std::sqrt(2 / std::numbers::pi))})});
  }
  const std::string half = step("Mul", {o.in(0), o.w.real(0.5)});
  o.w.node("Mul", {half, step("Add", {inner, o.w.real(1)})}, {o.out()});
}
void write_silu(OpWriter& o) {
  const std::string gate = o.w.fresh(o.out());
  o.w.node("Sigmoid", {o.in(0)}, {gate});
  o.w.node("Mul", {o.in(0), gate}, {o.out()});
}
void write_clamp(OpWriter& o) {
  const auto bound = [&](const char* name) {
    const double value = o.real(name);
    return std::isinf(value) ? std::string() : o.w.real(value);
  };
  o.w.node("Clip", {o.in(0), bound("low"), bound("high")}, {o.out()});
}
void write_affine(OpWriter& o) {
  const double scale = o.real("scale") / static_cast<double>(o.integer("divisor"));
  const std::string scaled = o.w.fresh(o.out());
  o.w.node("Mul", {o.in(0), o.w.real(scale)}, {scaled});
  o.w.node("Add", {scaled, o.w.real(o.real("shift"))}, {o.out()});
}

void write_axis_op(OpWriter& o, const char* op) {
  set(o.w.node(op, all_inputs(o), {o.out()}), "axis", o.integer("axis"));
}
void write_softmax(OpWriter& o) { write_axis_op(o, "Softmax"); }
void write_log_softmax(OpWriter& o) { write_axis_op(o, "LogSoftmax"); }
void write_concat(OpWriter& o) { write_axis_op(o, "Concat"); }
void write_gather(OpWriter& o) { write_axis_op(o, "Gather"); }
void write_embedding(OpWriter& o) { o.w.node("Gather", all_inputs(o), {o.out()}); }

void write_reshape(OpWriter& o) {
  o.w.node("Reshape", {o.in(0), o.w.integers(OpWriter::numbers_of(o.result()))}, {o.out()});
}
void write_expand(OpWriter& o) {
  o.w.node("Expand", {o.in(0), o.w.integers(OpWriter::numbers_of(o.result()))}, {o.out()});
}
void write_transpose(OpWriter& o) { set(o.w.node("Transpose", {o.in(0)}, {o.out()}), "perm", o.numbers("axes")); }
void write_slice(OpWriter& o) {
  const std::vector<int64_t> starts = o.numbers("starts");
  const std::vector<int64_t> sizes = o.numbers("sizes");
  const std::vector<int64_t> steps = o.numbers("steps");
  std::vector<int64_t> ends;
  std::vector<int64_t> axes;
  for (size_t i = 0; i < starts.size(); ++i) {
    if (steps[i] < 0) throw UnsupportedError("export: a slice that goes backwards");
    ends.push_back(starts[i] + (sizes[i] - 1) * steps[i] + 1);
    axes.push_back(static_cast<int64_t>(i));
  }
  o.w.node("Slice", {o.in(0), o.w.integers(starts), o.w.integers(ends), o.w.integers(axes), o.w.integers(steps)},
           {o.out()});
}
void write_split(OpWriter& o) {
  std::vector<std::string> outputs;
  std::vector<int64_t> sizes;
  const auto rank = static_cast<int64_t>(o.shape(0).rank());
  const int64_t axis = (o.integer("axis") + rank) % rank;
  for (const Value value : o.op.outputs) {
    outputs.push_back(o.w.name(value));
    sizes.push_back(o.w.shape(value)[static_cast<int>(axis)].constant());
  }
  set(o.w.node("Split", {o.in(0), o.w.integers(sizes)}, outputs), "axis", axis);
}
void write_fill(OpWriter& o) {
  const DType dtype = o.w.dtype(o.op.outputs[0]);
  if (dtype == DType::boolean) throw UnsupportedError("export: a constant of truth values");
  const std::string one =
      is_floating(dtype) ? o.w.real(o.real("value")) : o.w.integer(static_cast<int64_t>(o.real("value")));
  o.w.node("Expand", {one, o.w.integers(OpWriter::numbers_of(o.result()))}, {o.out()});
}

constexpr const char* kAdd = "Add";
constexpr const char* kSub = "Sub";
constexpr const char* kMul = "Mul";
constexpr const char* kDiv = "Div";
constexpr const char* kRelu = "Relu";
constexpr const char* kSigmoid = "Sigmoid";
constexpr const char* kTanh = "Tanh";
constexpr const char* kExp = "Exp";
constexpr const char* kSqrt = "Sqrt";
constexpr const char* kErf = "Erf";
constexpr const char* kIdentity = "Identity";
constexpr const char* kGlobalAverage = "GlobalAveragePool";
constexpr const char* kGlobalMax = "GlobalMaxPool";

const std::unordered_map<std::string_view, Form>& forms() {
  static const std::unordered_map<std::string_view, Form> table = {
      {"add", same<kAdd>},
      {"sub", same<kSub>},
      {"mul", same<kMul>},
      {"div", same<kDiv>},
      {"relu", same<kRelu>},
      {"sigmoid", same<kSigmoid>},
      {"tanh", same<kTanh>},
      {"exp", same<kExp>},
      {"sqrt", same<kSqrt>},
      {"erf", same<kErf>},
      {"identity", same<kIdentity>},
      {"global_avg_pool", same<kGlobalAverage>},
      {"global_max_pool", same<kGlobalMax>},
      {"conv", write_conv},
      {"conv_transpose", write_conv_transpose},
      {"max_pool", write_pool},
      {"avg_pool", write_pool},
      {"adaptive_avg_pool", write_adaptive_pool},
      {"batch_norm_inference", write_batch_norm},
      {"layer_norm", write_layer_norm},
      {"linear", write_linear},
      {"matmul", write_matmul},
      {"attention", write_attention},
      {"gelu", write_gelu},
      {"gelu_tanh", write_gelu},
      {"silu", write_silu},
      {"clamp", write_clamp},
      {"affine", write_affine},
      {"softmax", write_softmax},
      {"log_softmax", write_log_softmax},
      {"concat", write_concat},
      {"gather", write_gather},
      {"embedding", write_embedding},
      {"reshape", write_reshape},
      {"expand", write_expand},
      {"transpose", write_transpose},
      {"slice", write_slice},
      {"split", write_split},
      {"fill", write_fill},
  };
  return table;
}

}  // namespace

NodeProto* NodeWriter::node(const char* op, const std::vector<std::string>& inputs,
                            const std::vector<std::string>& outputs) {
  NodeProto* made = graph_.add_node();
  made->set_op_type(op);
  made->set_name(fmt::format("{}_{}", op, graph_.node_size()));
  for (const std::string& one : inputs) made->add_input(one);
  for (const std::string& one : outputs) made->add_output(one);
  return made;
}

std::string NodeWriter::fresh(const std::string& after) { return fmt::format("{}:{}", after, ++made_); }

std::string NodeWriter::integers(const std::vector<int64_t>& values) {
  TensorProto* tensor = graph_.add_initializer();
  tensor->set_name(fmt::format("integers:{}", ++made_));
  tensor->set_data_type(TensorProto::INT64);
  tensor->add_dims(static_cast<int64_t>(values.size()));
  for (const int64_t value : values) tensor->add_int64_data(value);
  return tensor->name();
}

std::string NodeWriter::integer(int64_t value) {
  TensorProto* tensor = graph_.add_initializer();
  tensor->set_name(fmt::format("integer:{}", ++made_));
  tensor->set_data_type(TensorProto::INT64);
  tensor->add_int64_data(value);
  return tensor->name();
}

std::string NodeWriter::real(double value) {
  TensorProto* tensor = graph_.add_initializer();
  tensor->set_name(fmt::format("real:{}", ++made_));
  tensor->set_data_type(TensorProto::FLOAT);
  tensor->add_float_data(static_cast<float>(value));
  return tensor->name();
}

void NodeWriter::write(const program::Op& op) {
  const auto form = forms().find(op.def->name);
  if (form == forms().end()) {
    throw UnsupportedError(
        fmt::format("export: the op {} (%{}) has no form in ONNX here", op.def->name, program_[op.outputs[0]].name));
  }
  OpWriter writer{*this, op};
  form->second(writer);
}

}  // namespace plimsoll::models::onnx_import
