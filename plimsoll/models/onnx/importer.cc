#include "plimsoll/models/onnx/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "plimsoll/base/error.h"
#include "plimsoll/models/onnx/draws.h"
#include "plimsoll/models/onnx/node.h"
#include "plimsoll/models/onnx/symbols.h"
#include "plimsoll/program/ops/constant.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/shape.h"

namespace plimsoll::models::onnx_import {
namespace {

constexpr int kMostDepth = 64;  // of subgraphs and functions in each other

class HostValues : public GivenValues {
 public:
  explicit HostValues(HostTensor tensor) : tensor_(std::move(tensor)) {}
  std::string text() const override { return "a constant of the graph"; }
  void read(std::span<float> into, uint64_t first) const override { copy(into, first); }
  void read(std::span<int64_t> into, uint64_t first) const override { copy(into, first); }

 private:
  template <class T>
  void copy(std::span<T> into, uint64_t first) const {
    for (size_t i = 0; i < into.size(); ++i) {
      into[i] = tensor_.is_real() ? static_cast<T>(tensor_.reals[first + i])
                                  : static_cast<T>(tensor_.ints[first + i].constant());
    }
  }
  HostTensor tensor_;
};

}  // namespace

Importer::Importer(Net& to, std::shared_ptr<const ModelFile> file, const ImportOptions& options)
    : net(to), file_(std::move(file)), options_(options) {}

void Importer::run() {
  const GraphProto& graph = file_->proto.graph();
  frames_.emplace_back();
  find_roles(graph);
  add_initializers(graph, frames_.back());
  symbols_ = std::make_shared<const Symbols>(*file_, options_.batch_is_symbol);
  for (const ValueInfoProto& input : graph.input()) {
    if (frames_.back().names.contains(input.name())) continue;  // old files list initializers, too
    add_input(input, *symbols_);
  }
  run_nodes(graph);
}

void Importer::add_input(const ValueInfoProto& input, const Symbols& symbols) {
  const std::string what = fmt::format("input {}", quote(input.name()));
  if (!input.type().has_tensor_type()) {
    throw UnsupportedError(fmt::format("{}: {} is no tensor", file_->name, what));
  }
  const int type = input.type().tensor_type().elem_type();
  const ElementKind element = element_kind(*file_, type, what);
  Dims dims = symbols.dims_of(input);
  if (const auto given = options_.inputs.find(input.name()); given != options_.inputs.end()) {
    if (given->second.rank() != dims.rank() && input.type().tensor_type().has_shape()) {
      throw ArgumentError(fmt::format("--input {} has {} dimensions, and the file's has {}", input.name(),
                                      given->second.rank(), dims.rank()));
    }
    dims = given->second;
  }
  dims = dims.bind(options_.sizes);
  const DType dtype = element == ElementKind::real ? net.dtype() : DType::i64;
  const std::string& fit = input_names_[input.name()] = value_name(input.name());
  Value value = net.b.input(fit, {dtype, dims});
  if (element == ElementKind::boolean) value = program::cast(net.b, value, DType::boolean);
  frames_.back().names[input.name()] = Tensor{type, value};
}

Dims Importer::dims_in_file(const ValueInfoProto& info) const { return symbols_->dims_of(info).bind(options_.sizes); }

void Importer::add_initializers(const GraphProto& graph, Frame& frame) {
  for (const TensorProto& proto : graph.initializer()) {
    const auto data = std::make_shared<const TensorData>(file_, proto);
    Tensor tensor{proto.data_type(), {}, {}, data};
    // Numbers of shapes and the like; single reals are constants of expressions.
    const bool is_small = data->elements() <= (data->kind() == ElementKind::real ? 1 : 4096);
    if (is_small && data->is_there() && !is_trained(*data)) {
      tensor.host = std::make_shared<const HostTensor>(read_host(*data));
      tensor.weight = {};
    }
    const auto [place, fresh] = frame.names.try_emplace(proto.name(), std::move(tensor));
    if (!fresh) throw InputError({.source = file_->name}, fmt::format("two initializers {}", quote(proto.name())));
  }
  if (graph.sparse_initializer_size() > 0) {
    throw UnsupportedError(fmt::format("{}: sparse initializers", file_->name));
  }
}

Tensor& Importer::find(const std::string& name, const NodeProto& node) {
  for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
    const auto found = frame->names.find(name);
    if (found != frame->names.end()) return found->second;
    if (!frame->sees_outer) break;
  }
  throw InputError({.source = file_->name}, fmt::format("{} reads {}, which no node before it makes: the graph has a "
                                                        "cycle, is not in order, or lacks an input",
                                                        node_text(node), quote(name)));
}

Tensor Importer::output(const std::string& name) {
  const auto found = frames_.front().names.find(name);
  if (found != frames_.front().names.end()) return found->second;
  throw InputError({.source = file_->name}, fmt::format("no node makes the output {}", quote(name)));
}

ElementKind Importer::kind(const Tensor& tensor) const {
  if (tensor.host) return tensor.host->kind;
  if (tensor.weight) return tensor.weight->kind();
  if (tensor.draw) return tensor.draw->is_mask() ? ElementKind::boolean : ElementKind::real;
  if (!tensor.value) throw UnsupportedError(fmt::format("{}: a sequence where a tensor is expected", file_->name));
  const DType dtype = net.b.type(tensor.value).dtype;
  if (dtype == DType::boolean) return ElementKind::boolean;
  return is_floating(dtype) ? ElementKind::real : ElementKind::integer;
}

DType Importer::dtype_of(ElementKind element_kind) const {
  if (element_kind == ElementKind::real) return net.dtype();
  return element_kind == ElementKind::integer ? DType::i64 : DType::boolean;
}

Dims Importer::dims(const Tensor& tensor) const {
  if (tensor.value) return net.b.shape(tensor.value);
  if (tensor.host) return tensor.host->dims;
  if (tensor.weight) return Dims(tensor.weight->shape());
  if (tensor.draw) return tensor.draw->dims;
  throw UnsupportedError(fmt::format("{}: a sequence where a tensor is expected", file_->name));
}

const HostTensor* Importer::host(Tensor& tensor) {
  if (tensor.host) return tensor.host.get();
  if (!tensor.weight || tensor.value) return nullptr;
  if (tensor.weight->elements() > kMostHostElements / 4 || !tensor.weight->is_there()) return nullptr;
  if (is_trained(*tensor.weight)) return nullptr;
  tensor.host = std::make_shared<const HostTensor>(read_host(*tensor.weight));
  return tensor.host.get();
}

Value Importer::value(const Tensor& tensor) {
  if (tensor.value) return tensor.value;
  if (tensor.weight) return parameter(*tensor.weight);
  if (tensor.draw) return drawn_value(*this, *tensor.draw);
  if (!tensor.host) throw UnsupportedError(fmt::format("{}: a sequence where a tensor is expected", file_->name));
  const auto [place, fresh] = weights_.try_emplace(tensor.host.get());
  if (!fresh) return place->second;
  kept_.push_back(tensor.host);  // so that its address stays its own
  const Value made = constant(*tensor.host, "constant");
  return weights_[tensor.host.get()] = made;
}

Value Importer::compact_value(const Tensor& tensor) {
  if (tensor.value || !tensor.host || tensor.host->dims == Dims(tensor.host->stored)) return value(tensor);
  const auto [place, fresh] = compact_.try_emplace(tensor.host.get());
  if (!fresh) return place->second;
  kept_.push_back(tensor.host);  // so that its address stays its own
  HostTensor stored = *tensor.host;
  stored.dims = Dims(stored.stored);
  return place->second = constant(stored, "constant");
}

Value Importer::constant(const HostTensor& tensor, const std::string& name) {
  const DType dtype = dtype_of(tensor.kind);
  if (tensor.count() == 0) return program::fill(net.b, 0, {dtype, tensor.dims});
  const auto symbolic = std::find_if(tensor.ints.begin(), tensor.ints.end(), [](Dim d) { return !d.is_constant(); });
  if (symbolic != tensor.ints.end()) {
    throw UnsupportedError(
        fmt::format("{}: a tensor holds the size {}, which must be known: give it with --batch or --dim", file_->name,
                    symbolic->text()));
  }
  if (tensor.is_uniform()) {
    const double all = tensor.is_real() ? tensor.reals[0] : static_cast<double>(tensor.ints[0].constant());
    return program::fill(net.b, all, {dtype, tensor.dims});
  }
  const program::Type type{tensor.is_real() ? DType::f32 : dtype, Dims(tensor.stored)};
  Value made = net.constant_state(value_name(name), type, given(std::make_shared<HostValues>(tensor)));
  if (tensor.is_real() && net.dtype() != DType::f32) made = program::cast(net.b, made, net.dtype());
  return Dims(tensor.stored) == tensor.dims ? made : program::expand(net.b, made, tensor.dims);
}

namespace {

// Weights are never that far from zero; what is added to scores to hide them is.
bool is_mask(const TensorData& data) {
  constexpr float kHidden = -1e30F;
  constexpr int64_t kBlock = 4096;
  if (!data.is_there()) return false;
  std::vector<float> block;
  for (int64_t first = 0; first < data.elements(); first += kBlock) {
    block.resize(static_cast<size_t>(std::min(kBlock, data.elements() - first)));
    data.read(std::span(block), first);
    if (std::any_of(block.begin(), block.end(), [](float x) { return x < kHidden; })) return true;
  }
  return false;
}

}  // namespace

bool Importer::is_trained(const TensorData& data) const {
  if (data.kind() != ElementKind::real) return false;
  const auto role = roles_.find(data.name());
  if (role == roles_.end()) return data.elements() > 1 && data.shape().rank() > 0 && !is_mask(data);
  return role->second != Role::statistic && role->second != Role::variance && role->second != Role::setting;
}

DType Importer::wide_dtype() const { return net.dtype() == DType::f64 ? DType::f64 : DType::f32; }

// Exporters write equal tensors once: the same bias may be that of a normalisation and that of a product.
Value Importer::in_dtype(Value weight, DType dtype) {
  return net.b.type(weight).dtype == dtype ? weight : program::cast(net.b, weight, dtype);
}

Value Importer::parameter(const TensorData& data) {
  const auto [place, fresh] = weights_.try_emplace(data.key());
  if (!fresh) return is_trained(data) ? in_dtype(place->second, net.dtype()) : place->second;
  const std::string name = value_name(data.name());
  const Dims shape(data.shape());
  Value made;
  if (is_trained(data)) {
    made = net.parameter(name, shape, init_of(data));
  } else if (data.kind() == ElementKind::real) {
    made = net.constant_state(name, {net.dtype(), shape}, init_of(data));
  } else {
    made = net.constant_state(name, {dtype_of(data.kind()), shape}, given(given_values(data)));
  }
  return weights_[data.key()] = made;
}

Value Importer::wide_weight(const Tensor& tensor) {
  if (!tensor.weight || !is_trained(*tensor.weight)) return value(tensor);
  const TensorData& data = *tensor.weight;
  const auto [place, fresh] = weights_.try_emplace(data.key());
  if (!fresh) return in_dtype(place->second, wide_dtype());
  const Value made = net.wide_parameter(value_name(data.name()), Dims(data.shape()), init_of(data));
  return weights_[data.key()] = made;
}

Value Importer::running_statistic(const Tensor& tensor) {
  if (!tensor.weight) return value(tensor);
  const TensorData& data = *tensor.weight;
  const auto shared = statistics_.find(data.key());
  if (!net.training() && shared != statistics_.end()) return shared->second;
  const Value made = net.wide_state(value_name(data.name()), Dims(data.shape()), init_of(data));
  return statistics_[data.key()] = made;
}

Init Importer::init_of(const TensorData& data) const {
  if (data.is_there() || !options_.draw_missing) return given(given_values(data));
  const auto role = roles_.find(data.name());
  return drawn_init(role == roles_.end() ? Role::none : role->second, data.name(), data.shape());
}

void Importer::find_roles(const GraphProto& graph) { roles_ = roles_of(graph); }

void Importer::note(std::string text) { notes_.insert(std::move(text)); }

std::string Importer::value_name(const std::string& name) const {
  std::string fit;
  for (const char c : name) {
    const bool ok = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '/' || c == '-';
    fit += ok ? c : '_';
  }
  if (fit.empty()) fit = "value";
  fit.resize(std::min<size_t>(fit.size(), 400));
  const auto is_free = [&](const std::string& one) { return !used_names_.contains(one) && !net.b.is_taken(one); };
  std::string unique = fit;
  if (!is_free(fit)) {
    int& last = used_names_[fit];
    do {
      unique = fmt::format("{}_{}", fit, ++last);
    } while (!is_free(unique));
  }
  used_names_.try_emplace(unique, 0);
  return unique;
}

std::string Importer::input_name(const std::string& name) const { return input_names_.at(name); }

Value Importer::untransposed(Value of) const {
  const auto found = transposed_.find(of.index);
  return found == transposed_.end() ? Value{} : found->second;
}

int Importer::opset(const std::string& domain) const {
  const auto& own = frames_.back().opsets;
  const auto found = own.find(domain == "ai.onnx" ? "" : domain);
  return found == own.end() ? file_->opset(domain) : found->second;
}

const FunctionProto* Importer::find_function(const std::string& domain, const std::string& name) const {
  for (const FunctionProto& function : file_->proto.functions()) {
    if (function.name() == name && function.domain() == domain) return &function;
  }
  return nullptr;
}

void Importer::run_nodes(const GraphProto& graph) {
  const std::vector<NodeUse> uses = node_uses(graph);
  for (int i = 0; i < graph.node_size(); ++i) {
    const NodeUse& use = uses[static_cast<size_t>(i)];
    if (!use.needed) continue;
    run_node(graph.node(i));
    auto& names = frames_.back().names;
    for (const std::string& name : use.last_reads) {  // masks and positions would add up
      if (const auto found = names.find(name); found != names.end() && found->second.host) found->second = {};
    }
  }
}

void Importer::run_node(const NodeProto& node) {
  constexpr int64_t kMostNodes = 200'000;
  if (++nodes_run_ > kMostNodes) {
    throw UnsupportedError(fmt::format("{}: more than {} nodes with loops unrolled", file_->name, kMostNodes));
  }
  NodeCall call(*this, node, opset(node.domain()));
  try {
    if (import_drawn(call) || fold(call)) return;
    if (const Rule rule = find_rule(node.domain(), node.op_type())) return rule(call);
    if (run_function(call)) return;
    if (options_.assume_shapes) return assume_node(call);
  } catch (const ArgumentError& error) {
    call.reject(error.what());
  }
  call.unsupported("there is no rule for this op");
}

bool Importer::fold(NodeCall& call) {
  std::vector<const HostTensor*> operands;
  for (int i = 0; i < call.inputs(); ++i) {
    const HostTensor* known = call.try_host(i);
    if (known == nullptr && call.has(i)) return false;
    operands.push_back(known);
  }
  return fold_node(call, operands);
}

std::vector<Tensor> Importer::run_graph(const GraphProto& graph, const std::vector<Tensor>& inputs) {
  if (++depth_ > kMostDepth) throw InputError({.source = file_->name}, "graphs that are nested too deeply");
  Frame frame;
  frame.attributes = frames_.back().attributes;
  frame.opsets = frames_.back().opsets;
  add_initializers(graph, frame);
  for (int i = 0; i < graph.input_size() && static_cast<size_t>(i) < inputs.size(); ++i) {
    frame.names[graph.input(i).name()] = inputs[static_cast<size_t>(i)];
  }
  frames_.push_back(std::move(frame));
  run_nodes(graph);
  std::vector<Tensor> made;
  const NodeProto end;
  for (const ValueInfoProto& output : graph.output()) made.push_back(find(output.name(), end));
  frames_.pop_back();
  --depth_;
  return made;
}

bool Importer::run_function(NodeCall& call) {
  const FunctionProto* function = find_function(call.node.domain(), call.node.op_type());
  if (function == nullptr) return false;
  if (++depth_ > kMostDepth) call.reject("functions that call each other without end");
  Frame frame;
  frame.sees_outer = false;
  for (const AttributeProto& attribute : call.node.attribute()) {
    const AttributeProto* given = call.attribute(attribute.name());
    if (given != nullptr) frame.attributes[attribute.name()] = given;
  }
  for (const auto& import : function->opset_import())
    frame.opsets[import.domain()] = static_cast<int>(import.version());
  for (int i = 0; i < function->input_size() && i < call.inputs(); ++i) {
    if (call.has(i)) frame.names[function->input(i)] = call.tensor(i);
  }
  frames_.push_back(std::move(frame));
  for (const NodeProto& node : function->node()) run_node(node);
  std::vector<Tensor> made;
  for (const std::string& output : function->output()) made.push_back(find(output, call.node));
  frames_.pop_back();
  --depth_;
  for (size_t k = 0; k < made.size(); ++k) call.set(static_cast<int>(k), made[k]);
  return true;
}

}  // namespace plimsoll::models::onnx_import
