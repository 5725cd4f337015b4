#include "plimsoll/report/module_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "plimsoll/models/step.h"
#include "plimsoll/report/terminal.h"

namespace plimsoll::report {
namespace {

program::Program resnet18() { return models::build_step(models::find_model("resnet18"), {.sizes = {{"batch", 2}}}); }

const ModuleRow* find(const ModuleTable& table, std::string_view name) {
  const auto found =
      std::find_if(table.rows.begin(), table.rows.end(), [&](const auto& row) { return row.name == name; });
  return found == table.rows.end() ? nullptr : &*found;
}

TEST(ModuleTable, HasTheFiguresOfALayer) {
  const ModuleTable table = module_table(resnet18(), 3);
  const ModuleRow* conv = find(table, "layer1.0.conv1");
  ASSERT_NE(conv, nullptr);
  EXPECT_EQ(conv->depth, 3);
  EXPECT_EQ(conv->op, "conv");
  EXPECT_EQ(conv->output, "f32[2,64,56,56]");
  EXPECT_EQ(conv->parameters, 64 * 64 * 9);
  EXPECT_EQ(conv->parameter_bytes, 64 * 64 * 9 * 4);
  EXPECT_EQ(conv->activation_bytes, 2 * 64 * 56 * 56 * 4);
  EXPECT_EQ(conv->forward_flops, int64_t{2} * 2 * 64 * 56 * 56 * 64 * 9);
}

TEST(ModuleTable, AModuleHasTheSumOfWhatIsInIt) {
  const ModuleTable table = module_table(resnet18(), 2);
  EXPECT_EQ(table.total.parameters, 11'689'512);  // as torchvision has them
  EXPECT_EQ(find(table, "layer1.0.conv1"), nullptr) << "deeper than was asked for";
  ModuleRow sum;
  for (const ModuleRow& row : table.rows) {
    if (row.depth != 1) continue;
    sum.parameters += row.parameters;
    sum.activation_bytes += row.activation_bytes;
    sum.forward_flops += row.forward_flops;
  }
  EXPECT_EQ(sum.parameters, table.total.parameters);
  EXPECT_EQ(sum.activation_bytes, table.total.activation_bytes);
  EXPECT_EQ(sum.forward_flops, table.total.forward_flops);
  const ModuleRow* first = find(table, "layer1.0");
  const ModuleRow* second = find(table, "layer1.1");
  ASSERT_TRUE(first != nullptr && second != nullptr);
  EXPECT_EQ(first->parameters + second->parameters, find(table, "layer1")->parameters);
  EXPECT_EQ(first->op, "") << "a block of several layers has no op of its own";
}

TEST(ModuleTable, ASharedTableCountsOnce) {
  const program::Program gpt =
      models::build_step(models::find_model("gpt2-nano"), {.sizes = {{"batch", 1}, {"sequence", 8}}});
  int64_t parameters = 0;
  for (const program::Value value : gpt.parameters) parameters += gpt[value].type.spec().shape.elements();
  EXPECT_EQ(module_table(gpt, 3).total.parameters, parameters);
}

TEST(ModuleTable, TheTextFitsATerminalAndTheJsonHasTheRows) {
  const ModuleTable table = module_table(resnet18(), 3);
  std::istringstream text(module_text(table));
  for (std::string line; std::getline(text, line);) EXPECT_LE(static_cast<int>(line.size()), kUsualColumns) << line;
  const auto json = module_json(table);
  EXPECT_EQ(json["modules"].size(), table.rows.size());
  EXPECT_EQ(json["total"]["parameters"], 11'689'512);
}

TEST(ModuleTable, ModulesOfGradientsAndStateAreThoseOfTheirParameters) {
  EXPECT_EQ(module_of("h.0.mlp.c_fc.weight"), "h.0.mlp.c_fc");
  EXPECT_EQ(module_of("grad.h.0.mlp.c_fc.weight"), "h.0.mlp.c_fc");
  EXPECT_EQ(module_of("optimizer.h.0.mlp.c_fc.weight.mean"), "h.0.mlp.c_fc");
  EXPECT_EQ(module_of("relu"), "");
}

TEST(ModuleTable, FlopsHaveThreeDigits) {
  EXPECT_EQ(format_flops(999), "999");
  EXPECT_EQ(format_flops(1'814'073'344), "1.81 G");
  EXPECT_EQ(format_flops(999'700'000), "1.00 G");
  EXPECT_EQ(format_flops(12'340), "12.3 k");
}

}  // namespace
}  // namespace plimsoll::report
