#include "plimsoll/models/weights/weights.h"

#include <fmt/format.h>

#include <array>

#include "plimsoll/base/error.h"

namespace plimsoll::models {
namespace {

class GivenStored : public GivenValues {
 public:
  GivenStored(StoredTensor tensor, bool transposed) : tensor_(std::move(tensor)), transposed_(transposed) {}
  std::string text() const override { return tensor_.name; }
  void read(std::span<float> into, uint64_t first) const override {
    if (!transposed_) return tensor_.read(into, static_cast<int64_t>(first));
    const auto rows = static_cast<uint64_t>(tensor_.shape[0]);  // of the file, columns here
    const auto columns = static_cast<uint64_t>(tensor_.shape[1]);
    for (size_t i = 0; i < into.size(); ++i) {
      const uint64_t place = first + i;
      tensor_.read(into.subspan(i, 1), static_cast<int64_t>(place % rows * columns + place / rows));
    }
  }
  void read(std::span<int64_t> into, uint64_t first) const override {
    std::vector<float> reals(into.size());
    read(std::span(reals), first);
    std::copy(reals.begin(), reals.end(), into.begin());
  }

 private:
  StoredTensor tensor_;
  bool transposed_;
};

const StoredTensor* find_stored(const StoredTensors& tensors, const std::string& name) {
  for (const char* prefix : {"", "transformer.", "model.", "module.", "bert.", "m."}) {
    const auto found = tensors.find(prefix + name);
    if (found != tensors.end()) return &found->second;
  }
  return nullptr;
}

Shape swapped(const Shape& shape) { return {shape[1], shape[0]}; }

void give(const ModelInfo& info, const std::string& path, const StoredTensors& tensors, const program::Program& program,
          const std::vector<Value>& values, std::vector<Init>& inits) {
  for (size_t i = 0; i < inits.size(); ++i) {
    const program::ValueInfo& value = program[values[i]];
    if (!is_floating(value.type.dtype)) continue;
    const StoredTensor* stored = find_stored(tensors, value.name);
    if (stored == nullptr && inits[i].kind == Init::Kind::given) continue;  // a file of its own has it
    if (stored == nullptr) {
      throw ArgumentError(fmt::format("{} has no tensor {}, which {} has", path, quote(value.name), info.name));
    }
    const bool transposed = is_stored_transposed(info, value.name) && stored->shape.rank() == 2;
    const Shape shape = value.type.shape.shape();
    if ((transposed ? swapped(stored->shape) : stored->shape) != shape) {
      throw ArgumentError(fmt::format("{}: {} is {}, and {} has it as {}", path, quote(stored->name),
                                      stored->shape.text(), info.name, shape.text()));
    }
    inits[i] = given(std::make_shared<GivenStored>(*stored, transposed));
  }
}

}  // namespace

bool is_stored_transposed(const ModelInfo& info, std::string_view parameter) {
  if (!info.name.starts_with("gpt2") || info.name.ends_with(".onnx")) return false;
  for (const std::string_view layer : {"c_attn.weight", "c_proj.weight", "c_fc.weight"}) {
    if (parameter.ends_with(layer)) return true;
  }
  return false;
}

ModelInfo with_weights(ModelInfo info, const std::string& path) {
  const auto tensors = std::make_shared<const StoredTensors>(read_safetensors(path));
  const ModelInfo plain = info;
  info.build = [plain, tensors, path](const NetOptions& net, Size size) {
    Model model = plain.build(net, size);
    give(plain, path, *tensors, model.program, model.program.parameters, model.inits);
    give(plain, path, *tensors, model.program, model.program.state, model.state_inits);
    return model;
  };
  return info;
}

}  // namespace plimsoll::models
