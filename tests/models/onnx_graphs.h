// Small ONNX files, written node by node.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/models/onnx/schema.h"

namespace plimsoll::models {

class GraphWriter {
 public:
  explicit GraphWriter(int opset = 18) {
    model.set_ir_version(8);
    auto* import = model.add_opset_import();
    import->set_domain("");
    import->set_version(opset);
    model.mutable_graph()->set_name("test");
  }

  // A dimension is a number or a name.
  void input(const std::string& name, const std::vector<std::string>& dims, int type = onnx::TensorProto::FLOAT) {
    auto* value = model.mutable_graph()->add_input();
    value->set_name(name);
    auto* tensor = value->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (const std::string& dim : dims) {
      auto* one = tensor->mutable_shape()->add_dim();
      if (dim.find_first_not_of("-0123456789") == std::string::npos) {
        one->set_dim_value(std::stoll(dim));
      } else {
        one->set_dim_param(dim);
      }
    }
  }
  void output(const std::string& name) {
    auto* value = model.mutable_graph()->add_output();
    value->set_name(name);
    value->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  }
  onnx::TensorProto* weight(const std::string& name, const std::vector<int64_t>& dims,
                            const std::vector<float>& values) {
    auto* tensor = model.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    for (const int64_t dim : dims) tensor->add_dims(dim);
    for (const float value : values) tensor->add_float_data(value);
    return tensor;
  }
  onnx::TensorProto* integers(const std::string& name, const std::vector<int64_t>& values) {
    auto* tensor = model.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::INT64);
    tensor->add_dims(static_cast<int64_t>(values.size()));
    for (const int64_t value : values) tensor->add_int64_data(value);
    return tensor;
  }
  onnx::NodeProto* node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs) {
    auto* made = model.mutable_graph()->add_node();
    made->set_op_type(op);
    made->set_name(outputs.empty() ? op : "make_" + outputs[0]);
    for (const std::string& one : inputs) made->add_input(one);
    for (const std::string& one : outputs) made->add_output(one);
    return made;
  }
  static void set(onnx::NodeProto* node, const std::string& name, int64_t value) {
    auto* attribute = node->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INT);
    attribute->set_i(value);
  }
  static void set_real(onnx::NodeProto* node, const std::string& name, float value) {
    onnx::AttributeProto* attribute = node->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::FLOAT);
    attribute->set_f(value);
  }
  static void set(onnx::NodeProto* node, const std::string& name, const std::vector<int64_t>& values) {
    auto* attribute = node->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INTS);
    for (const int64_t value : values) attribute->add_ints(value);
  }
  std::string bytes() const { return model.SerializeAsString(); }

  onnx::ModelProto model;
};

}  // namespace plimsoll::models
