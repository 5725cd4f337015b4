#include "plimsoll/models/weights/compressed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/models/prune.h"
#include "plimsoll/models/weights/safetensors.h"

namespace plimsoll::models {
namespace {

constexpr const char* kText = "plimsoll.compressed";
constexpr const char* kScale = ".scale";
constexpr int64_t kMostElements = int64_t{1} << 48;  // of a tensor of a file

int largest_code(int bits) { return bits == 8 ? 127 : 7; }

int code_of(float x, float scale, int bits) {
  if (scale == 0 || !std::isfinite(x / scale)) return 0;
  const int most = largest_code(bits);
  return std::clamp(static_cast<int>(std::nearbyint(x / scale)), -most, most);
}

void set_code(CompressedTensor& tensor, int64_t row, int64_t column, int code) {
  if (tensor.bits == 8) {
    tensor.data[static_cast<size_t>(row * tensor.columns() + column)] = static_cast<std::byte>(code);
    return;
  }
  std::byte& byte = tensor.data[static_cast<size_t>(row * tensor.row_bytes() + column / 2)];
  byte |= static_cast<std::byte>((code + 8) << (column % 2 * 4));
}

float element_of(const CompressedTensor& tensor, int64_t row, int64_t column) {
  const int64_t group = tensor.group == 0 ? 0 : column / tensor.group;
  const float scale = tensor.scales[static_cast<size_t>(row * tensor.groups() + group)];
  if (tensor.bits == 8) {
    return scale *
           static_cast<float>(static_cast<int8_t>(tensor.data[static_cast<size_t>(row * tensor.columns() + column)]));
  }
  const auto byte = std::to_integer<int>(tensor.data[static_cast<size_t>(row * tensor.row_bytes() + column / 2)]);
  return scale * static_cast<float>((byte >> (column % 2 * 4) & 15) - 8);
}

double error_of(std::span<const float> values, std::span<const float> importance, float scale, int bits) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double off = values[i] - scale * static_cast<float>(code_of(values[i], scale, bits));
    sum += off * off * (importance.empty() ? 1.0 : static_cast<double>(importance[i]));
  }
  return sum;
}

// Clipping the largest values makes the others finer.
float best_scale(std::span<const float> values, std::span<const float> importance, int bits) {
  constexpr int kTries = 12;
  const double step = bits == 8 ? 0.01 : 0.04;
  float largest = 0;
  for (const float x : values) largest = std::max(largest, std::isfinite(x) ? std::abs(x) : 0.0F);
  const float whole = largest / static_cast<float>(largest_code(bits));
  float best = whole;
  double least = error_of(values, importance, whole, bits);
  for (int i = 1; i < kTries && least > 0; ++i) {
    const float scale = whole * static_cast<float>(1 - i * step);
    const double error = error_of(values, importance, scale, bits);
    if (error < least) {
      least = error;
      best = scale;
    }
  }
  return best;
}

class GivenCompressed : public GivenValues {
 public:
  GivenCompressed(std::shared_ptr<const CompressedTensors> all, const CompressedTensor& one)
      : all_(std::move(all)), one_(one) {}
  std::string text() const override { return one_.name; }
  void read(std::span<float> into, uint64_t first) const override { one_.read(into, first); }
  void read(std::span<int64_t> into, uint64_t first) const override {
    std::vector<float> reals(into.size());
    one_.read(reals, first);
    std::copy(reals.begin(), reals.end(), into.begin());
  }

 private:
  std::shared_ptr<const CompressedTensors> all_;
  const CompressedTensor& one_;
};

[[noreturn]] void fail(const std::string& path, const std::string& found) {
  throw InputError({.source = path}, found, "a file that `plimsoll compress` wrote");
}

nlohmann::json parse_text(const std::string& path, const StoredFile& file) {
  const auto found = file.texts.find(kText);
  if (found == file.texts.end()) fail(path, "weights that are not compressed");
  nlohmann::json json = nlohmann::json::parse(found->second, nullptr, false);
  if (!json.is_object()) fail(path, fmt::format("a text {} that is no JSON object", quote(kText)));
  return json;
}

std::vector<std::byte> bytes_of(const StoredTensor& tensor) { return {tensor.bytes.begin(), tensor.bytes.end()}; }

// What the text says of a tensor; whether the bytes fit is checked.
CompressedTensor read_one(const std::string& path, const StoredFile& file, const std::string& name,
                          const nlohmann::json& said) {
  CompressedTensor tensor{.name = name};
  try {
    tensor.bits = said.at("bits").get<int>();
    tensor.group = said.at("group").get<int64_t>();
    tensor.shape = Shape(said.at("shape").get<std::vector<int64_t>>());
    if (tensor.shape.elements() > kMostElements) throw ArgumentError("too many elements");
  } catch (const std::exception&) {
    fail(path, fmt::format("no bits, group and shape of {}", quote(name)));
  }
  const bool has_group = tensor.group >= 0 && tensor.group <= kMostElements;
  if ((tensor.bits != 32 && tensor.bits != 8 && tensor.bits != 4) || !has_group) {
    fail(path, fmt::format("{} of {} bits in groups of {}", quote(name), tensor.bits, tensor.group));
  }
  const auto data = file.tensors.find(name);
  if (data == file.tensors.end()) fail(path, fmt::format("no tensor {}", quote(name)));
  tensor.data = bytes_of(data->second);
  if (static_cast<int64_t>(tensor.data.size()) != tensor.rows() * tensor.row_bytes()) {
    fail(path, fmt::format("{} of {} bytes for {} bits of {}", quote(name), tensor.data.size(), tensor.bits,
                           tensor.shape.text()));
  }
  if (tensor.bits == 32) return tensor;
  const auto scales = file.tensors.find(name + kScale);
  if (scales == file.tensors.end() || scales->second.elements() != tensor.rows() * tensor.groups()) {
    fail(path, fmt::format("no scales of {}, or not {} of them", quote(name), tensor.rows() * tensor.groups()));
  }
  tensor.scales.resize(static_cast<size_t>(scales->second.elements()));
  scales->second.read(tensor.scales, 0);
  return tensor;
}

}  // namespace

void CompressedTensor::read(std::span<float> into, uint64_t first) const {
  if (bits == 32) {
    std::memcpy(into.data(), data.data() + first * sizeof(float), into.size() * sizeof(float));
    return;
  }
  for (size_t i = 0; i < into.size(); ++i) {
    const auto place = static_cast<int64_t>(first + i);
    into[i] = element_of(*this, place / columns(), place % columns());
  }
}

CompressedTensor plain_tensor(std::string name, const Shape& shape, std::span<const float> values) {
  const auto bytes = std::as_bytes(values);
  return {.name = std::move(name), .shape = shape, .data = {bytes.begin(), bytes.end()}, .scales = {}};
}

CompressedTensor quantize_tensor(std::string name, const Shape& shape, std::span<const float> values, int bits,
                                 int64_t group, std::span<const float> importance) {
  CompressedTensor tensor{
      .name = std::move(name), .shape = shape, .bits = bits, .group = group, .data = {}, .scales = {}};
  const int64_t columns = tensor.columns();
  tensor.data.resize(static_cast<size_t>(tensor.rows() * tensor.row_bytes()));
  const int64_t width = group == 0 ? columns : group;
  for (int64_t row = 0; row < tensor.rows(); ++row) {
    for (int64_t from = 0; from < columns; from += width) {
      const auto count = static_cast<size_t>(std::min(width, columns - from));
      const auto some = values.subspan(static_cast<size_t>(row * columns + from), count);
      const auto weighed = importance.empty() ? importance : importance.subspan(static_cast<size_t>(from), count);
      tensor.scales.push_back(best_scale(some, weighed, bits));
      for (size_t i = 0; i < count; ++i) {
        set_code(tensor, row, from + static_cast<int64_t>(i), code_of(some[i], tensor.scales.back(), bits));
      }
    }
  }
  return tensor;
}

ModelInfo with_tensors(ModelInfo info, std::shared_ptr<const CompressedTensors> tensors, const std::string& where) {
  info.build = [plain = info, tensors, where](const NetOptions& net, Size size) {
    Model model = plain.build(net, size);
    ParameterShapes shapes;
    for (const CompressedTensor& tensor : *tensors) shapes[tensor.name] = tensor.shape;
    model.program = with_parameter_shapes(std::move(model.program), shapes);
    const auto give = [&](const std::vector<Value>& values, std::vector<Init>& inits) {
      for (size_t i = 0; i < inits.size(); ++i) {
        const program::ValueInfo& value = model.program[values[i]];
        if (!is_floating(value.type.dtype)) continue;
        const auto found = std::find_if(tensors->begin(), tensors->end(),
                                        [&](const CompressedTensor& one) { return one.name == value.name; });
        if (found == tensors->end()) {
          throw ArgumentError(fmt::format("{} has no tensor {}, which {} has", where, quote(value.name), plain.name));
        }
        inits[i] = given(std::make_shared<GivenCompressed>(tensors, *found));
      }
    };
    give(model.program.parameters, model.inits);
    give(model.program.state, model.state_inits);
    return model;
  };
  return info;
}

void write_compressed(const std::string& path, const CompressedTensors& tensors) {
  std::vector<StoredSpec> specs;
  nlohmann::ordered_json said = nlohmann::ordered_json::object();
  for (const CompressedTensor& tensor : tensors) {
    const DType dtype = tensor.bits == 32 ? DType::f32 : tensor.bits == 8 ? DType::i8 : DType::u8;
    specs.push_back({tensor.name, dtype, tensor.bits == 4 ? Shape{tensor.rows(), tensor.row_bytes()} : tensor.shape});
    if (tensor.bits != 32) specs.push_back({tensor.name + kScale, DType::f32, {tensor.rows(), tensor.groups()}});
    said[tensor.name] = {{"bits", tensor.bits}, {"group", tensor.group}, {"shape", tensor.shape.dims()}};
  }
  std::string file = stored_header(specs, {{kText, said.dump()}});
  for (const CompressedTensor& tensor : tensors) {
    file.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
    file.append(reinterpret_cast<const char*>(tensor.scales.data()), tensor.scales.size() * sizeof(float));
  }
  write_file(path, file);
}

bool is_compressed(const std::string& path) {
  return path.ends_with(".safetensors") && read_stored_file(path).texts.contains(kText);
}

CompressedTensors read_compressed(const std::string& path) {
  const StoredFile file = read_stored_file(path);
  CompressedTensors tensors;
  const nlohmann::json text = parse_text(path, file);
  for (const auto& [name, said] : text.items()) {
    tensors.push_back(read_one(path, file, name, said));
  }
  return tensors;
}

}  // namespace plimsoll::models
