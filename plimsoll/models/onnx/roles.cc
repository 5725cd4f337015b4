#include "plimsoll/models/onnx/roles.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace plimsoll::models::onnx_import {
namespace {

struct Use {
  std::string_view op;
  int operand;
  Role role;
};

constexpr std::array kUses = {
    Use{"Conv", 1, Role::kernel},
    Use{"Conv", 2, Role::shift},
    Use{"ConvTranspose", 1, Role::up_kernel},
    Use{"ConvTranspose", 2, Role::shift},
    Use{"MatMul", 0, Role::rows},
    Use{"MatMul", 1, Role::columns},
    Use{"Gemm", 0, Role::rows},
    Use{"Gemm", 1, Role::columns},
    Use{"Gemm", 2, Role::shift},
    Use{"FusedConv", 1, Role::kernel},
    Use{"FusedConv", 2, Role::shift},
    Use{"FusedGemm", 0, Role::rows},
    Use{"FusedGemm", 1, Role::columns},
    Use{"FusedGemm", 2, Role::shift},
    Use{"EmbedLayerNormalization", 2, Role::table},
    Use{"EmbedLayerNormalization", 3, Role::table},
    Use{"EmbedLayerNormalization", 4, Role::table},
    Use{"EmbedLayerNormalization", 5, Role::scale},
    Use{"EmbedLayerNormalization", 6, Role::shift},
    Use{"Gather", 0, Role::table},
    Use{"BatchNormalization", 1, Role::scale},
    Use{"BatchNormalization", 2, Role::shift},
    Use{"BatchNormalization", 3, Role::statistic},
    Use{"BatchNormalization", 4, Role::variance},
    Use{"LayerNormalization", 1, Role::scale},
    Use{"LayerNormalization", 2, Role::shift},
    Use{"SimplifiedLayerNormalization", 1, Role::scale},
    Use{"SkipLayerNormalization", 2, Role::scale},
    Use{"SkipLayerNormalization", 3, Role::shift},
    Use{"SkipSimplifiedLayerNormalization", 2, Role::scale},
    Use{"RMSNormalization", 1, Role::scale},
    Use{"GroupNormalization", 1, Role::scale},
    Use{"GroupNormalization", 2, Role::shift},
    Use{"InstanceNormalization", 1, Role::scale},
    Use{"InstanceNormalization", 2, Role::shift},
    Use{"PRelu", 1, Role::slope},
    Use{"LSTM", 1, Role::rows},
    Use{"LSTM", 2, Role::rows},
    Use{"LSTM", 3, Role::shift},
    Use{"GRU", 1, Role::rows},
    Use{"GRU", 2, Role::rows},
    Use{"GRU", 3, Role::shift},
    Use{"RNN", 1, Role::rows},
    Use{"RNN", 2, Role::rows},
    Use{"RNN", 3, Role::shift},
    Use{"Clip", 1, Role::setting},
    Use{"Clip", 2, Role::setting},
    Use{"Dropout", 1, Role::setting},
    Use{"Resize", 1, Role::setting},
    Use{"Resize", 2, Role::setting},
    Use{"Upsample", 1, Role::setting},
    Use{"Pad", 2, Role::setting},
    Use{"OneHot", 2, Role::setting},
    Use{"QuantizeLinear", 1, Role::setting},
    Use{"DequantizeLinear", 1, Role::setting},
};

Role role_in(const NodeProto& node, int operand) {
  if (node.op_type().starts_with("QLinear")) return Role::setting;
  for (const Use& use : kUses) {
    if (use.op == node.op_type() && use.operand == operand) return use.role;
  }
  return Role::none;
}

bool has_flag(const NodeProto& node, std::string_view name) {
  return std::any_of(node.attribute().begin(), node.attribute().end(),
                     [&](const AttributeProto& a) { return a.name() == name && a.i() != 0; });
}

Role transposed(Role role) {
  if (role == Role::rows) return Role::columns;
  return role == Role::columns ? Role::rows : role;
}

// What a name stands for: an initializer, perhaps seen through nodes that only show it in another way.
struct Source {
  std::string initializer;
  bool is_transposed = false;
};

}  // namespace

Roles roles_of(const GraphProto& graph) {
  std::unordered_map<std::string, Source> sources;
  for (const TensorProto& tensor : graph.initializer()) sources[tensor.name()] = {tensor.name()};
  Roles roles;
  for (const NodeProto& node : graph.node()) {
    for (int i = 0; i < node.input_size(); ++i) {
      const auto source = sources.find(node.input(i));
      if (source == sources.end()) continue;
      const Source found = source->second;
      const bool shows = node.op_type() == "Transpose" || node.op_type() == "Identity" || node.op_type() == "Cast";
      if (shows && node.output_size() == 1) {
        sources[node.output(0)] = {found.initializer, found.is_transposed != (node.op_type() == "Transpose")};
      }
      Role role = role_in(node, i);
      if (node.op_type().ends_with("Gemm") && i == 1 && has_flag(node, "transB")) role = transposed(role);
      if (found.is_transposed) role = transposed(role);
      if (role != Role::none) roles.try_emplace(found.initializer, role);
    }
  }
  return roles;
}

Init drawn_init(Role role, const std::string& name, const Shape& shape) {
  const int rank = shape.rank();
  const auto inputs = [&](int axis) { return fan_in(std::max<int64_t>(1, shape[axis])); };
  switch (role) {
    case Role::kernel:
    case Role::up_kernel:  // PyTorch counts what stands after the first dimension here, too
      if (rank >= 2 && shape[0] > 0) return fan_in(std::max<int64_t>(1, shape.elements() / shape[0]));
      break;
    case Role::rows:
      if (rank >= 2) return inputs(rank - 1);
      break;
    case Role::columns:
      if (rank >= 2) return inputs(rank - 2);
      break;
    case Role::scale:
    case Role::variance:
      return constant(1);
    case Role::slope:
      return constant(0.25);
    case Role::shift:
    case Role::statistic:
      return constant(0);
    default:
      break;
  }
  if (rank >= 2) return normal(0.02);
  return constant(name.ends_with("weight") || name.ends_with("gamma") || name.ends_with("scale") ? 1 : 0);
}

}  // namespace plimsoll::models::onnx_import
