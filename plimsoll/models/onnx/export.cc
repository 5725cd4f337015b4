#include "plimsoll/models/onnx/export.h"

#include <fmt/format.h>

#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/models/onnx/export_nodes.h"

namespace plimsoll::models {
namespace onnx_import {
namespace {

constexpr int64_t kMostBytes = int64_t{1900} << 20;  // protobuf ends at 2 GiB

void describe(ValueInfoProto* info, const program::ValueInfo& value) {
  info->set_name(value.name);
  auto* tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(is_floating(value.type.dtype) ? TensorProto::FLOAT : TensorProto::INT64);
  for (const program::Dim dim : value.type.shape) tensor->mutable_shape()->add_dim()->set_dim_value(dim.constant());
}

void add_weight(GraphProto& graph, const program::ValueInfo& value, const Init& init, uint64_t seed, uint64_t stream) {
  TensorProto* tensor = graph.add_initializer();
  tensor->set_name(value.name);
  const Shape shape = value.type.shape.shape();
  for (const int64_t dim : shape.dims()) tensor->add_dims(dim);
  std::string* raw = tensor->mutable_raw_data();
  const auto count = static_cast<size_t>(shape.elements());
  if (value.type.dtype == DType::f32) {
    tensor->set_data_type(TensorProto::FLOAT);
    raw->resize(count * sizeof(float));
    return draw(init, std::span(reinterpret_cast<float*>(raw->data()), count), seed, stream);
  }
  tensor->set_data_type(TensorProto::INT64);
  raw->resize(count * sizeof(int64_t));
  init.values->read(std::span(reinterpret_cast<int64_t*>(raw->data()), count), 0);
}

int64_t weight_bytes(const program::Program& program) {
  int64_t bytes = 0;
  for (const auto* values : {&program.parameters, &program.state}) {
    for (const Value value : *values) bytes += program[value].type.spec().bytes();
  }
  return bytes;
}

}  // namespace
}  // namespace onnx_import

int64_t export_onnx(const ModelInfo& info, const std::string& path, const ExportOptions& options) {
  using namespace onnx_import;  // NOLINT(google-build-using-namespace)
  const Model model = info.build({.training = false}, Size::full);
  program::Bindings sizes = bindings(info, options.sizes);
  const std::set<std::string> symbols = program::symbols(model.program);
  std::erase_if(sizes, [&](const auto& size) { return !symbols.contains(size.first); });
  const program::Program program = program::bind(model.program, sizes);
  if (weight_bytes(program) > kMostBytes) {
    throw UnsupportedError(
        fmt::format("{} has more weights than an ONNX file without external data can hold", info.name));
  }
  ModelProto proto;
  proto.set_ir_version(8);
  proto.set_producer_name("plimsoll");
  auto* import = proto.add_opset_import();
  import->set_domain("");
  import->set_version(17);
  GraphProto& graph = *proto.mutable_graph();
  graph.set_name("model");
  for (const Value input : program.inputs) describe(graph.add_input(), program[input]);
  uint64_t stream = 0;
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    add_weight(graph, program[program.parameters[i]], model.inits[i], options.seed, stream++);
  }
  for (size_t i = 0; i < model.state_inits.size(); ++i) {
    add_weight(graph, program[program.state[i]], model.state_inits[i], options.seed, stream++);
  }
  NodeWriter writer(graph, program);
  for (const program::Op& op : program.ops) writer.write(op);
  for (const Value output : program.outputs) describe(graph.add_output(), program[output]);
  const std::string bytes = proto.SerializeAsString();
  write_file(path, bytes);
  return static_cast<int64_t>(bytes.size());
}

}  // namespace plimsoll::models
