#include "plimsoll/models/weights/weights.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/models/adapt.h"
#include "plimsoll/models/step.h"
#include "plimsoll/train/training.h"

namespace plimsoll::models {
namespace {

class Weights : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  // A file with this header and so many bytes after it.
  std::string file_of(const std::string& header, size_t bytes) const {
    uint64_t length = header.size();
    std::string all(8, '\0');
    std::memcpy(all.data(), &length, 8);
    write_file(path("w.safetensors"), all + header + std::string(bytes, '\0'));
    return path("w.safetensors");
  }
  std::string error_of(const std::string& header, size_t bytes) const {
    try {
      read_safetensors(file_of(header, bytes));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

 private:
  std::string folder_ = testing::TempDir() + "weights_" + std::to_string(getpid());
};

TensorToStore counting(const std::string& name, const Shape& shape) {
  return {name, shape, [](std::span<float> into, int64_t first) {
            for (size_t i = 0; i < into.size(); ++i) into[i] = static_cast<float>(first + static_cast<int64_t>(i));
          }};
}

TEST_F(Weights, WhatIsWrittenIsReadBack) {
  write_safetensors(path("w.safetensors"), {counting("a", {2, 3}), counting("b.weight", {4})});
  const StoredTensors read = read_safetensors(path("w.safetensors"));
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read.at("a").shape, (Shape{2, 3}));
  std::vector<float> values(2);
  read.at("a").read(values, 3);
  EXPECT_EQ(values, (std::vector<float>{3, 4}));
  EXPECT_FALSE(std::filesystem::exists(path("w.safetensors.part")));
}

TEST_F(Weights, AnIndexNamesFilesBesideIt) {
  write_safetensors(path("one.safetensors"), {counting("a", {2})});
  write_safetensors(path("two.safetensors"), {counting("b", {3})});
  write_file(path("i.json"), R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})");
  EXPECT_EQ(read_safetensors(path("i.json")).size(), 2U);
  write_file(path("i.json"), R"({"weight_map": {"a": "../one.safetensors"}})");
  EXPECT_THROW(read_safetensors(path("i.json")), InputError);
}

TEST_F(Weights, HostileHeadersAreRefused) {
  EXPECT_NE(error_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,9223372036854775807]}})", 8).find("outside"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8).find("do not make"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})", 8).find("'a'"),
            std::string::npos);
  EXPECT_NE(
      error_of(
          R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
          12)
          .find("overlap"),
      std::string::npos);
  EXPECT_NE(error_of(std::string(5000, '[') + std::string(5000, ']'), 0).find("nested"), std::string::npos);
  EXPECT_NE(error_of("[]", 0).find("no object"), std::string::npos);
  EXPECT_NE(error_of("{", 0).find("no JSON"), std::string::npos);
  write_file(path("short"), "1234");
  EXPECT_THROW(read_safetensors(path("short")), InputError);
}

TEST_F(Weights, AModelStartsWithThem) {
  const ModelInfo& mlp = find_model("mlp");
  const Model model = mlp.build({}, Size::full);
  std::vector<TensorToStore> tensors;
  for (const Value value : model.program.parameters) {
    tensors.push_back(counting("model." + model.program[value].name, model.program[value].type.shape.shape()));
  }
  write_safetensors(path("w.safetensors"), tensors);
  const Model given = with_weights(mlp, path("w.safetensors")).build({}, Size::full);
  EXPECT_EQ(draw(given.inits[0], 10, 1, 0)[7], 7);
  tensors.pop_back();
  write_safetensors(path("w.safetensors"), tensors);
  EXPECT_THROW(with_weights(mlp, path("w.safetensors")).build({}, Size::full), ArgumentError);
}

TEST_F(Weights, TransposedValuesAreReadInAnyBlocks) {
  const ModelInfo& gpt = find_model("gpt2-nano");
  const Model model = gpt.build({}, Size::small);
  std::vector<TensorToStore> tensors;
  for (const Value value : model.program.parameters) {
    const program::ValueInfo& info = model.program[value];
    const Shape shape = info.type.shape.shape();
    const bool turned = is_stored_transposed(gpt, info.name);
    tensors.push_back(counting("transformer." + info.name, turned ? Shape{shape[1], shape[0]} : shape));
  }
  write_safetensors(path("w.safetensors"), tensors);
  const Model read = with_weights(gpt, path("w.safetensors")).build({}, Size::small);
  for (size_t i = 0; i < read.inits.size(); ++i) {
    const program::ValueInfo& info = read.program[read.program.parameters[i]];
    if (!info.name.ends_with("0.attn.c_attn.weight")) continue;
    const Shape shape = info.type.shape.shape();  // 18 rows of 6 here, 6 of 18 in the file
    for (const uint64_t first : {0, 5, 17}) {
      std::vector<float> block(40);
      draw(read.inits[i], block, 1, 0, first);
      for (size_t k = 0; k < block.size(); ++k) {
        const int64_t place = static_cast<int64_t>(first + k);
        ASSERT_EQ(block[k], place % shape[1] * shape[0] + place / shape[1]) << first << " " << k;
      }
    }
    return;
  }
  FAIL() << "no such layer";
}

TEST_F(Weights, LayersOfGpt2AreTransposed) {
  const ModelInfo& gpt = find_model("gpt2-nano");
  EXPECT_TRUE(is_stored_transposed(gpt, "h.0.attn.c_attn.weight"));
  EXPECT_FALSE(is_stored_transposed(gpt, "h.0.attn.c_attn.bias"));
  EXPECT_FALSE(is_stored_transposed(find_model("resnet18"), "conv1.weight"));
}

// ---- what is trained ----

TEST(Adapt, PatternsFitAsInAShell) {
  EXPECT_TRUE(matches("layer1.*", "layer1.0.conv1.weight"));
  EXPECT_TRUE(matches("*attn*weight", "h.0.attn.c_proj.weight"));
  EXPECT_TRUE(matches("h.?.ln", "h.3.ln"));
  EXPECT_FALSE(matches("layer1.*", "layer10"));
  EXPECT_FALSE(matches("a", "ab"));
}

TEST(Adapt, FrozenParametersHaveNoGradientAndNoState) {
  const ModelInfo mlp = find_model("mlp");
  const program::Program all = build_step(mlp, {.sizes = {{"batch", 4}}});
  const program::Program some = build_step(adapt(mlp, {.freeze = {"fc1*"}}), {.sizes = {{"batch", 4}}});
  EXPECT_LT(some.parameters.size(), all.parameters.size());
  const auto optimizer_state = [](const program::Program& program) {
    return std::count_if(program.state.begin(), program.state.end(),
                         [&](Value value) { return program[value].name.starts_with("optimizer."); });
  };
  EXPECT_EQ(optimizer_state(some), 2 * static_cast<int64_t>(some.parameters.size()) + 1);
  EXPECT_THROW(build_step(adapt(mlp, {.freeze = {"nothing*"}})), ArgumentError);
  EXPECT_THROW(build_step(adapt(mlp, {.freeze = {"*"}})), ArgumentError);
}

TEST(Adapt, LoraTrainsItsMatricesAlone) {
  const ModelInfo gpt = find_model("gpt2-nano");
  const ModelInfo adapted = adapt(gpt, {.lora = Lora{.rank = 4, .targets = {"*attn*weight"}}});
  const train::TrainingOptions options{
      .batch = 2, .sizes = {{"sequence", 16}}, .optimizer = train::sgd(0.1), .threads = 1, .measure = false};
  train::Training lora(adapted, options);
  EXPECT_EQ(lora.read("h.0.attn.c_attn.weight.lora_b"), std::vector<float>(144 * 4));
  const float first = lora.step();
  for (int i = 0; i < 10; ++i) lora.step();
  EXPECT_LT(lora.step(), first);
  const std::vector<std::string> names = lora.names();
  const auto count =
      std::count_if(names.begin(), names.end(), [](const auto& name) { return name.ends_with(".lora_a"); });
  EXPECT_EQ(count, 6);  // c_attn and c_proj of three layers
  EXPECT_NE(lora.read("h.0.attn.c_attn.weight.lora_b"), std::vector<float>(144 * 4));
}

TEST(Adapt, LoraStartsWhereThePlainModelDoes) {
  const train::TrainingOptions options{
      .batch = 2, .sizes = {{"sequence", 16}}, .optimizer = train::sgd(0.1), .threads = 1, .measure = false};
  const ModelInfo gpt = find_model("gpt2-nano");
  const float plain = train::Training(gpt, options).step();
  EXPECT_FLOAT_EQ(train::Training(adapt(gpt, {.lora = Lora{.rank = 4}}), options).step(), plain);
  EXPECT_FLOAT_EQ(train::Training(adapt(gpt, {.freeze = {"h.0.*", "wpe*"}}), options).step(), plain);
}

TEST(Adapt, LoraHoldsFrozenWeightsInLowerPrecision) {
  const ModelInfo gpt = adapt(find_model("gpt2-nano"), {.lora = parse_lora("r=2,alpha=4")});
  const Model model = gpt.build({.dtype = DType::bf16}, Size::full);
  for (const Value value : model.program.state) {
    const program::ValueInfo& info = model.program[value];
    if (!info.name.ends_with("c_fc.weight")) continue;
    EXPECT_EQ(info.type.dtype, DType::bf16);
  }
  EXPECT_THROW(parse_lora("8"), ArgumentError);
  EXPECT_THROW(parse_lora("r=0"), ArgumentError);
}

}  // namespace
}  // namespace plimsoll::models
