#include "plimsoll/models/prune.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/models/zoo/zoo.h"
#include "plimsoll/program/op.h"
#include "plimsoll/program/verify.h"

namespace plimsoll::models {
namespace {

program::Program inference(std::string_view name) {
  return find_model(name).build({.training = false}, Size::full).program;
}

const ChannelGroup* group_of(const std::vector<ChannelGroup>& groups, std::string_view name, int axis) {
  for (const ChannelGroup& group : groups) {
    for (const auto& along : group.along) {
      if (along.name == name && along.axis == axis) return &group;
    }
  }
  return nullptr;
}

TEST(Prune, ChannelsOfALayerGoWithItsBiasAndTheNextLayersInputs) {
  const auto groups = find_channel_groups(inference("lenet"));
  const ChannelGroup* second = group_of(groups, "conv2.weight", 0);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->channels, 16);
  EXPECT_EQ(second, group_of(groups, "conv2.bias", 0));
  EXPECT_EQ(second, group_of(groups, "fc1.weight", 1)) << "through the flattened image";
  const auto flattened = std::find_if(second->along.begin(), second->along.end(),
                                      [](const auto& along) { return along.name == "fc1.weight"; });
  EXPECT_EQ(flattened->repeat, 25) << "5 x 5 pixels a channel";
  EXPECT_EQ(group_of(groups, "conv1.weight", 1), nullptr) << "the image that comes in";
  EXPECT_EQ(group_of(groups, "fc3.weight", 0), nullptr) << "the classes that go out";
}

TEST(Prune, LayersThatAreAddedGoTogether) {
  const auto groups = find_channel_groups(inference("resnet18"));
  const ChannelGroup* stream = group_of(groups, "layer1.0.conv2.weight", 0);
  ASSERT_NE(stream, nullptr);
  EXPECT_EQ(stream, group_of(groups, "conv1.weight", 0));
  EXPECT_EQ(stream, group_of(groups, "layer1.1.bn2.running_var", 0));
  EXPECT_EQ(stream, group_of(groups, "layer2.0.downsample.0.weight", 1));
  EXPECT_NE(stream, group_of(groups, "layer1.0.conv1.weight", 0)) << "within a block they are its own";
}

TEST(Prune, ConvolutionsOfSingleChannelsKeepThem) {
  const auto groups = find_channel_groups(inference("mobilenet_v2"));
  const ChannelGroup* hidden = group_of(groups, "features.2.conv.1.0.weight", 0);
  ASSERT_NE(hidden, nullptr);
  EXPECT_EQ(hidden, group_of(groups, "features.2.conv.0.0.weight", 0));
}

TEST(Prune, WhatIsJoinedStaysWhole) {
  const auto groups = find_channel_groups(inference("densenet121"));
  EXPECT_EQ(group_of(groups, "features.conv0.weight", 0), nullptr);
}

TEST(Prune, AProgramOfOtherShapesIsInferredAnewInTrainingToo) {
  const ParameterShapes shapes = {{"conv2.weight", {10, 6, 5, 5}}, {"conv2.bias", {10}}, {"fc1.weight", {120, 250}}};
  for (const bool training : {false, true}) {
    Model model = find_model("lenet").build({.training = training}, Size::full);
    const program::Program pruned = with_parameter_shapes(std::move(model.program), shapes);
    program::verify(pruned);
    const program::Value reshaped = [&] {
      for (const program::Op& op : pruned.ops) {
        if (op.def->name == "reshape") return op.outputs[0];
      }
      return program::Value{};
    }();
    EXPECT_EQ(pruned[reshaped].type.shape[1], 250);
  }
}

TEST(Prune, ShapesThatDoNotFitAreRefused) {
  Model model = find_model("lenet").build({.training = false}, Size::full);
  EXPECT_THROW(with_parameter_shapes(std::move(model.program), {{"conv2.weight", {10, 7, 5, 5}}}), ArgumentError);
}

}  // namespace
}  // namespace plimsoll::models
