#include "plimsoll/models/onnx/symbols.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <vector>

#include "plimsoll/base/error.h"

namespace plimsoll::models::onnx_import {
namespace {

using program::Dim;
using program::Dims;

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string symbol_name(const std::string& text) {
  std::string name;
  for (const char c : text) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  if (name.empty() || std::isalpha(static_cast<unsigned char>(name[0])) == 0) name.insert(0, "d_");
  name.resize(std::min<size_t>(name.size(), 64));
  return name;
}

// Inputs that are not initializers.
std::vector<const ValueInfoProto*> inputs_of(const ModelFile& file) {
  std::set<std::string> initializers;
  for (const TensorProto& tensor : file.proto.graph().initializer()) initializers.insert(tensor.name());
  std::vector<const ValueInfoProto*> inputs;
  for (const ValueInfoProto& input : file.proto.graph().input()) {
    if (!initializers.contains(input.name())) inputs.push_back(&input);
  }
  return inputs;
}

const auto& shape_proto(const ValueInfoProto& input) { return input.type().tensor_type().shape(); }

// A dimension of the file that has no name and no number has this one.
std::string unnamed(const ValueInfoProto& input, int axis) { return fmt::format("{} {}", input.name(), axis); }

std::string name_in_file(const ValueInfoProto& input, int axis) {
  const auto& dim = shape_proto(input).dim(axis);
  if (dim.has_dim_value()) return {};
  return dim.dim_param().empty() ? unnamed(input, axis) : dim.dim_param();
}

// Names that exporters make up, one for each dimension even where sizes must agree: s72, unk__3, mask_dynamic_axes_1.
bool is_made_up(const std::string& name) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  const bool is_numbered = name.size() > 1 && name[0] == 's' && std::all_of(name.begin() + 1, name.end(), is_digit);
  return is_numbered || name.starts_with("unk__") || name.find("dynamic_axes") != std::string::npos;
}

// The first name of a dimension that `is_it` of the name and its axis.
template <class F>
std::string find_name(const std::vector<const ValueInfoProto*>& inputs, const F& is_it) {
  for (const ValueInfoProto* input : inputs) {
    for (int axis = 0; axis < shape_proto(*input).dim_size(); ++axis) {
      const std::string name = name_in_file(*input, axis);
      if (!name.empty() && is_it(lower(name), axis, *input)) return name;
    }
  }
  return {};
}

}  // namespace

Symbols::Symbols(const ModelFile& file, bool batch_is_symbol) : file_name_(file.name) {
  const auto inputs = inputs_of(file);
  using Input = ValueInfoProto;
  std::string batch = find_name(inputs, [](const std::string& name, int, const Input&) {
    return name == "n" || (name.find("batch") != std::string::npos && name.find("seq") == std::string::npos);
  });
  if (batch.empty()) batch = find_name(inputs, [](const std::string&, int axis, const Input&) { return axis == 0; });
  if (!batch.empty()) names_[batch] = "batch";
  std::string sequence = find_name(inputs, [&](const std::string& name, int, const Input&) {
    return name != lower(batch) && name.find("seq") != std::string::npos && name.find("past") == std::string::npos &&
           name.find("total") == std::string::npos;
  });
  if (sequence.empty()) {
    sequence = find_name(inputs, [&](const std::string& name, int axis, const Input& input) {
      return axis == 1 && name != lower(batch) && shape_proto(input).dim_size() == 2;
    });
  }
  if (!sequence.empty()) names_[sequence] = "sequence";
  for (const ValueInfoProto* input : inputs) {
    const int rank = shape_proto(*input).dim_size();
    for (int axis = 0; axis < rank; ++axis) {
      const std::string name = name_in_file(*input, axis);
      if (!is_made_up(name) && name != unnamed(*input, axis)) continue;
      if (axis == 0) names_.try_emplace(name, "batch");
      if (axis == 1 && rank == 2 && !sequence.empty()) names_.try_emplace(name, "sequence");
    }
  }
  if (!batch.empty() || !batch_is_symbol) return;
  for (const ValueInfoProto* input : inputs) {
    if (shape_proto(*input).dim_size() == 0) continue;
    const int64_t first = shape_proto(*input).dim(0).dim_value();
    if (fixed_batch_ == 0) fixed_batch_ = first;
    if (first != fixed_batch_) {
      fixed_batch_ = 0;
      return;
    }
  }
}

Dim Symbols::dim_of(const ValueInfoProto& input, int axis) const {
  const auto& dim = shape_proto(input).dim(axis);
  if (!dim.has_dim_value()) {
    const std::string name = name_in_file(input, axis);
    const auto known = names_.find(name);
    return Dim::symbol(known == names_.end() ? symbol_name(name) : known->second);
  }
  if (dim.dim_value() < 0 || dim.dim_value() > INT64_MAX / 8) {
    throw InputError({.source = file_name_}, fmt::format("input {}: dimension {} is {}, expected 0 or more",
                                                         quote(input.name()), axis, dim.dim_value()));
  }
  return axis == 0 && fixed_batch_ > 0 ? Dim::symbol("batch") : Dim(dim.dim_value());
}

Dims Symbols::dims_of(const ValueInfoProto& input) const {
  Dims dims;
  for (int axis = 0; axis < shape_proto(input).dim_size(); ++axis) dims.push_back(dim_of(input, axis));
  return dims;
}

}  // namespace plimsoll::models::onnx_import
