#include "plimsoll/models/zoo/zoo.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "plimsoll/base/error.h"
#include "plimsoll/base/similar.h"
#include "plimsoll/models/zoo/families.h"

namespace plimsoll::models {
namespace {

const std::vector<ModelInfo>& table() {
  static const std::vector<ModelInfo> models = {
      {"p11", "reference program: one convolution over 1024x1024 images", build_p11, {{"batch", 256}}},
      {"p13", "reference program: wide convolutional net, 256 to 1024 channels", build_p13, {{"batch", 32}}},
      {"p14", "reference program: the slim form of p13", build_p14, {{"batch", 32}}},
      {"mlp", "multi-layer perceptron, two hidden layers of 512", build_mlp, {{"batch", 64}}},
      {"lenet", "LeNet-5", build_lenet, {{"batch", 64}}},
      {"resnet18", "residual network of 18 layers", build_resnet18, {{"batch", 32}}},
      {"resnet50", "residual network of 50 layers, bottlenecks", build_resnet50, {{"batch", 32}}},
      {"vgg16", "VGG-16, configuration D", build_vgg16, {{"batch", 32}}},
      {"mobilenet_v2", "inverted residuals, depthwise convolutions", build_mobilenet_v2, {{"batch", 32}}},
      {"densenet121", "densely connected convolutional network", build_densenet121, {{"batch", 32}}},
      {"unet", "U-Net for segmentation, padded convolutions", build_unet, {{"batch", 8}}},
      {"vit_b_16", "vision transformer, patches of 16x16", build_vit_b_16, {{"batch", 32}}},
      {"gpt2-nano",
       "GPT-2 with 3 layers of width 48",
       build_gpt2_nano,
       {{"batch", 8}, {"sequence", 256}},
       {{"sequence", 1024}}},
      {"gpt2", "GPT-2 small", build_gpt2, {{"batch", 4}, {"sequence", 1024}}, {{"sequence", 1024}}},
      {"gpt2-medium", "GPT-2 medium", build_gpt2_medium, {{"batch", 4}, {"sequence", 1024}}, {{"sequence", 1024}}},
      {"gpt2-large", "GPT-2 large", build_gpt2_large, {{"batch", 4}, {"sequence", 1024}}, {{"sequence", 1024}}},
      {"gpt2-xl", "GPT-2 xl", build_gpt2_xl, {{"batch", 4}, {"sequence", 1024}}, {{"sequence", 1024}}},
      {"bert_base",
       "BERT-base with its masked language modelling head",
       build_bert_base,
       {{"batch", 8}, {"sequence", 512}},
       {{"sequence", 512}}},
  };
  return models;
}

}  // namespace

ModelInfo own_model(std::string name, Model model, program::Bindings usual) {
  for (const std::string& symbol : program::symbols(model.program)) usual.try_emplace(symbol, 1);
  const auto build = [name, model = std::move(model)](const NetOptions& asked, Size /*size*/) {
    if (asked.dtype != model.options.dtype || asked.training != model.options.training) {
      const auto text = [](const NetOptions& options) {
        return fmt::format("{} in {}", options.training ? "training" : "inference", plimsoll::name(options.dtype));
      };
      throw UnsupportedError(
          fmt::format("{} was built for {}, asked for {}: build its Net with the options that you want", name,
                      text(model.options), text(asked)));
    }
    return model;
  };
  return {std::move(name), "a model of one's own", build, std::move(usual)};
}

std::span<const ModelInfo> all_models() { return table(); }

const ModelInfo& find_model(std::string_view name) {
  std::vector<std::string> names;
  for (const ModelInfo& model : table()) {
    if (model.name == name) return model;
    names.emplace_back(model.name);
  }
  throw ArgumentError(
      fmt::format("there is no model {}; {}`plimsoll models` lists all", quote(name), similar_hint(name, names)));
}

program::Bindings bindings(const ModelInfo& model, const program::Bindings& asked) {
  program::Bindings sizes = model.usual;
  for (const auto& [symbol, size] : asked) {
    const auto found = sizes.find(symbol);
    if (found == sizes.end()) throw ArgumentError(fmt::format("{} has no dimension {}", model.name, quote(symbol)));
    const auto most = model.most.find(symbol);
    const int64_t limit = most == model.most.end() ? INT32_MAX : most->second;
    if (size < 1 || size > limit) {
      throw ArgumentError(fmt::format("{} {} is out of range: {} takes 1 to {}", symbol, size, model.name, limit));
    }
    const auto fixed = model.fixed.find(symbol);
    if (fixed != model.fixed.end() && fixed->second != size) {
      throw ArgumentError(fmt::format("{} {}: {} was loaded for {}, and its graph is good for that alone", symbol, size,
                                      model.name, fixed->second));
    }
    found->second = size;
  }
  return sizes;
}

}  // namespace plimsoll::models
