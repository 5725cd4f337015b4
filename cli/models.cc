#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/verbs.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/models/step.h"

namespace plimsoll::cli {
namespace {

struct Row {
  const models::ModelInfo& model;
  int64_t parameters;
  int64_t flops;
  std::string input;  // "f32[batch,3,224,224]"
};

Row describe(const models::ModelInfo& info) {
  const models::Model model = info.build({.training = false}, models::Size::full);
  const program::Value input = model.program.inputs.front();
  return {info, models::parameter_count(model), models::forward_flops(info), model.program[input].type.text()};
}

void print_rows_json(const std::vector<Row>& rows) {
  nlohmann::ordered_json models = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    models.push_back({{"name", row.model.name},
                      {"description", row.model.description},
                      {"parameters", row.parameters},
                      {"forward_flops_per_sample", row.flops},
                      {"input", row.input},
                      {"sizes", row.model.usual}});
  }
  print_json({{"models", models}});
}

std::string sizes_text(const program::Bindings& sizes) {
  std::string text;
  for (const auto& [symbol, size] : sizes) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", symbol, size);
  return text;
}

void print_table(const std::vector<Row>& rows) {
  print("{:<13} {:>13} {:>9}  {}\n", "model", "parameters", "GFLOP", "what it is; input; usual sizes");
  for (const Row& row : rows) {
    print("{:<13} {:>13} {:>9.3f}  {}; {}; {}\n", row.model.name, format_count(row.parameters),
          static_cast<double>(row.flops) / 1e9, row.model.description, row.input, sizes_text(row.model.usual));
  }
}

}  // namespace

void add_models(const Command& app, int& /*status*/) {
  const Command verb = app.add_verb("models", "List the built-in models");
  verb.footer("Example: plimsoll models --json\nFLOPs are those of the forward pass, for a sample.");
  const auto json = std::make_shared<bool>(false);
  verb.add_flag("--json", *json, "Print JSON");
  verb.callback([json] {
    std::vector<Row> rows;
    for (const models::ModelInfo& model : models::all_models()) rows.push_back(describe(model));
    *json ? print_rows_json(rows) : print_table(rows);
  });
}

}  // namespace plimsoll::cli
