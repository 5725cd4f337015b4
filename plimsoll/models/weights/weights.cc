#include "plimsoll/models/weights/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plimsoll/base/error.h"
#include "plimsoll/models/weights/archives.h"
#include "plimsoll/models/weights/compressed.h"

namespace plimsoll::models {
namespace {

// What gives reals alone gives integers by them.
class GivenReals : public GivenValues {
 public:
  using GivenValues::read;
  void read(std::span<int64_t> into, uint64_t first) const override {
    std::vector<float> reals(into.size());
    read(std::span(reals), first);
    std::copy(reals.begin(), reals.end(), into.begin());
  }
};

// Tensors one after the other, by rows where there are several.
class GivenStored : public GivenReals {
 public:
  explicit GivenStored(std::vector<StoredTensor> tensors) : tensors_(std::move(tensors)) {}
  std::string text() const override { return tensors_.front().name; }
  using GivenReals::read;
  void read(std::span<float> into, uint64_t first) const override {
    for (const StoredTensor& tensor : tensors_) {
      const auto count = static_cast<uint64_t>(tensor.elements());
      if (first < count && !into.empty()) {
        const size_t here = std::min<size_t>(into.size(), count - first);
        tensor.read(into.first(here), static_cast<int64_t>(first));
        into = into.subspan(here);
        first = count;
      }
      first -= count;
    }
  }

 private:
  std::vector<StoredTensor> tensors_;
};

// A matrix whose file has the transpose.
class GivenTransposed : public GivenReals {
 public:
  explicit GivenTransposed(StoredTensor tensor) : tensor_(std::move(tensor)) {}
  std::string text() const override { return tensor_.name; }
  using GivenReals::read;
  void read(std::span<float> into, uint64_t first) const override {
    const auto rows = static_cast<uint64_t>(tensor_.shape[0]);  // of the file, columns here
    const auto columns = static_cast<uint64_t>(tensor_.shape[1]);
    if (into.empty() || rows == 0) return;
    const uint64_t low = first / rows;
    const uint64_t high = (first + into.size() - 1) / rows + 1;  // the file's columns that are read are [low, high)
    const uint64_t width = high - low;
    std::vector<float> block(kRows * width);
    for (uint64_t row = 0; row < rows; row += kRows) {
      const uint64_t count = std::min(kRows, rows - row);
      for (uint64_t i = 0; i < count; ++i) {
        tensor_.read(std::span(block).subspan(i * width, width), static_cast<int64_t>((row + i) * columns + low));
      }
      for (uint64_t column = low; column < high; ++column) {
        for (uint64_t i = 0; i < count; ++i) {
          const uint64_t place = column * rows + row + i;
          if (place >= first && place - first < into.size()) into[place - first] = block[i * width + column - low];
        }
      }
    }
  }

 private:
  static constexpr uint64_t kRows = 16;  // a line of the cache at a time
  StoredTensor tensor_;
};

struct Alias {
  std::string_view ours, theirs;
};
// Hugging Face's ViT, which has three layers for in_proj: {} stands for each.
constexpr std::array kVitAliases = {
    Alias{"class_token", "embeddings.cls_token"},
    Alias{"conv_proj.", "embeddings.patch_embeddings.projection."},
    Alias{"encoder.pos_embedding", "embeddings.position_embeddings"},
    Alias{"encoder.layers.encoder_layer_", "encoder.layer."},
    Alias{".self_attention.in_proj_", ".attention.attention.{}."},
    Alias{".self_attention.out_proj.", ".attention.output.dense."},
    Alias{".ln_1.", ".layernorm_before."},
    Alias{".ln_2.", ".layernorm_after."},
    Alias{".mlp.0.", ".intermediate.dense."},
    Alias{".mlp.3.", ".output.dense."},
    Alias{"encoder.ln.", "layernorm."},
    Alias{"heads.head.", "classifier."},
};
// BERT's first files have TensorFlow's words.
constexpr std::array kBertAliases = {Alias{"LayerNorm.weight", "LayerNorm.gamma"},
                                     Alias{"LayerNorm.bias", "LayerNorm.beta"}};

std::string renamed(std::string name, std::span<const Alias> aliases) {
  for (const Alias& alias : aliases) {
    const size_t found = name.find(alias.ours);
    if (found != std::string::npos) name.replace(found, alias.ours.size(), alias.theirs);
  }
  return name;
}

const StoredTensor* find_prefixed(const StoredTensors& tensors, const std::string& name) {
  for (const char* prefix : {"", "transformer.", "model.", "module.", "bert.", "vit.", "m."}) {
    const auto found = tensors.find(prefix + name);
    if (found != tensors.end()) return &found->second;
  }
  return nullptr;
}

// One tensor, or the three whose rows are ours. Empty: the file has none.
std::vector<StoredTensor> find_stored(const StoredTensors& tensors, const std::string& name) {
  for (const std::string& known : {name, renamed(name, kBertAliases), renamed(name, kVitAliases)}) {
    const size_t place = known.find("{}");
    if (place == std::string::npos) {
      if (const StoredTensor* found = find_prefixed(tensors, known)) return {*found};
      continue;
    }
    std::vector<StoredTensor> parts;
    for (const char* part : {"query", "key", "value"}) {
      const StoredTensor* found = find_prefixed(tensors, std::string(known).replace(place, 2, part));
      if (found != nullptr) parts.push_back(*found);
    }
    if (parts.size() == 3) return parts;
  }
  return {};
}

Shape swapped(const Shape& shape) { return {shape[1], shape[0]}; }

// Of all parts, one under the other. A scalar for parts that do not fit together.
Shape stacked_shape(const std::vector<StoredTensor>& parts) {
  std::vector<int64_t> dims(parts[0].shape.dims().begin(), parts[0].shape.dims().end());
  for (size_t i = 1; i < parts.size(); ++i) {
    if (dims.empty() || parts[i].shape != parts[0].shape) return {};
    dims[0] += parts[i].shape[0];
  }
  return Shape(dims);
}

std::shared_ptr<const GivenValues> given_values(std::vector<StoredTensor> parts, bool transposed) {
  if (transposed) return std::make_shared<GivenTransposed>(std::move(parts[0]));
  return std::make_shared<GivenStored>(std::move(parts));
}

void give(const ModelInfo& info, const std::string& path, const StoredTensors& tensors, const program::Program& program,
          const std::vector<Value>& values, std::vector<Init>& inits) {
  for (size_t i = 0; i < inits.size(); ++i) {
    const program::ValueInfo& value = program[values[i]];
    if (!is_floating(value.type.dtype)) continue;
    std::vector<StoredTensor> parts = find_stored(tensors, value.name);
    if (parts.empty() && inits[i].kind == Init::Kind::given) continue;  // a file of its own has it
    if (parts.empty()) {
      throw ArgumentError(fmt::format("{} has no tensor {}, which {} has", path, quote(value.name), info.name));
    }
    const bool transposed = is_stored_transposed(info, value.name) && parts.size() == 1 && parts[0].shape.rank() == 2;
    const Shape found = transposed ? swapped(parts[0].shape) : stacked_shape(parts);
    const Shape shape = value.type.shape.shape();
    if (found != shape) {
      throw ArgumentError(fmt::format("{}: {} is {}, and {} has it as {}", path, quote(parts[0].name), found.text(),
                                      info.name, shape.text()));
    }
    inits[i] = given(given_values(std::move(parts), transposed));
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
  if (is_compressed(path)) {
    return with_tensors(std::move(info), std::make_shared<const CompressedTensors>(read_compressed(path)), path);
  }
  const auto tensors = std::make_shared<const StoredTensors>(read_weights(path));
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
