#include "plimsoll/models/onnx/export.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/model_options.h"
#include "cli/verbs.h"
#include "plimsoll/base/bytes.h"

namespace plimsoll::cli {
namespace {

struct ExportVerb {
  ModelOptions step;
  std::string output;
  uint64_t seed = 1;
};

void run(const ExportVerb& verb) {
  const models::ModelInfo info = find_model(verb.step);
  models::ExportOptions options{.seed = verb.seed};
  if (verb.step.batch) options.sizes["batch"] = *verb.step.batch;
  if (verb.step.sequence) options.sizes["sequence"] = *verb.step.sequence;
  const int64_t bytes = models::export_onnx(info, verb.output, options);
  if (verb.step.json) {
    return print_json({{"model", verb.step.model}, {"output", verb.output}, {"file_bytes", bytes}});
  }
  print("{}: {} in {}\n", verb.step.model, format_bytes(bytes), verb.output);
}

}  // namespace

void add_export(const Command& app, int& /*status*/) {
  const Command verb = app.add_verb("export", "Write the inference of a model as an ONNX file");
  verb.footer("Example: plimsoll export resnet18 --batch 1 --weights resnet18.safetensors -o resnet18.onnx");
  const auto options = std::make_shared<ExportVerb>();
  add_model_options(verb, options->step);
  verb.add_option("-o,--output", options->output, "The file to write").required();
  verb.add_option("--seed", options->seed, "Of values that are drawn").shows_default();
  verb.callback([options] { run(*options); });
}

}  // namespace plimsoll::cli
