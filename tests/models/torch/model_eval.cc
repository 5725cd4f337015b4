// Runs or trains a model for the comparison with another framework: model_eval SPEC, a JSON object with
//   model       a name of the zoo or a path to an .onnx file
//   weights     a file of weights (optional)
//   size        "small": the zoo's model for tests
//   sizes       {"batch": 2, ..}
//   shapes      {"input": ["batch", 3, 64, 64], ..}, in place of those in the .onnx file
//   loss, lora, freeze, precision, optimizer, rate   as on the command line
//   steps       of training; 0: inference
//   reference   true: one step by the reference evaluator, in f64, of the same program from the same values
// and files to write, all optional, as safetensors of f32: `before` and `after` (parameters and state as the program
// has them), `inputs` (the data, made up), `outputs`, `save` (parameters as train --save writes them). Prints the
// losses. Nothing is dropped by dropout.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "plimsoll/base/file.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/models/adapt.h"
#include "plimsoll/models/onnx/load.h"
#include "plimsoll/models/step.h"
#include "plimsoll/models/weights/weights.h"
#include "plimsoll/program/evaluate.h"
#include "plimsoll/run/floats.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/initialize.h"
#include "plimsoll/train/save_weights.h"
#include "plimsoll/train/synthetic.h"
#include "plimsoll/train/trainer.h"

namespace plimsoll {
namespace {

using program::Program;
using program::Value;
using Json = nlohmann::json;

std::map<std::string, program::Dims, std::less<>> shapes_of(const Json& spec) {
  std::map<std::string, program::Dims, std::less<>> shapes;
  const Json all = spec.value("shapes", Json::object());
  for (const auto& [name, given] : all.items()) {
    for (const Json& dim : given) {
      shapes[name].push_back(dim.is_string() ? program::Dim::symbol(dim.get<std::string>()) : dim.get<int64_t>());
    }
  }
  return shapes;
}

models::ModelInfo plain_model(const Json& spec) {
  const std::string name = spec.at("model");
  if (!name.ends_with(".onnx")) return models::find_model(name);
  return models::load_onnx(name, {.sizes = spec.value("sizes", program::Bindings()),
                                  .inputs = shapes_of(spec),
                                  .loss = spec.value("loss", ""),
                                  .init = true});
}

models::ModelInfo model_of(const Json& spec) {
  models::ModelInfo info = plain_model(spec);
  if (spec.contains("weights")) info = models::with_weights(std::move(info), spec.at("weights"));
  models::AdaptOptions adapt{.freeze = spec.value("freeze", std::vector<std::string>())};
  if (spec.contains("lora")) adapt.lora = models::parse_lora(spec.at("lora").get<std::string>());
  return models::adapt(std::move(info), adapt);
}

// Both would have to draw the same elements.
models::Model without_dropout(models::Model model) {
  for (program::Op& op : model.program.ops) {
    for (size_t i = 0; i < op.attributes.size(); ++i) {
      if (op.def->name == "dropout" && op.def->attributes[i].name == "rate") op.attributes[i] = program::Attribute(0.0);
    }
  }
  return model;
}

models::Step step_of(const Json& spec) {
  models::ModelInfo info = model_of(spec);
  info.build = [build = info.build](const models::NetOptions& net, models::Size size) {
    return without_dropout(build(net, size));
  };
  models::StepOptions options;
  options.training = spec.value("steps", 0) > 0;
  options.precision = parse_dtype(spec.value("precision", "f32"));
  options.size = spec.value("size", "full") == "small" ? models::Size::small : models::Size::full;
  options.sizes = spec.value("sizes", program::Bindings());
  std::erase_if(options.sizes, [&](const auto& size) { return !info.usual.contains(size.first); });
  options.train.optimizer = program::try_parse_optimizer(spec.value("optimizer", "momentum")).value();
  return models::build_whole_step(info, options);
}

std::vector<float> floats_of(run::Executor& executor, Value value) {
  if (executor.program()[value].type.dtype != DType::i64) return run::read_floats(executor, value);
  const std::vector<int64_t> integers = executor.read<int64_t>(value);
  return {integers.begin(), integers.end()};
}

// `floats` gives the elements of a value.
template <class F>
void write(const Json& spec, const char* key, const Program& program, const std::vector<Value>& values,
           const F& floats) {
  if (!spec.contains(key)) return;
  std::vector<models::TensorToStore> tensors;
  const auto all = std::make_shared<std::vector<float>>();  // of the tensor that is being written
  for (const Value value : values) {
    const program::ValueInfo& info = program[value];
    if (!is_floating(info.type.dtype) && info.type.dtype != DType::i64) continue;
    const auto read = [&floats, value, all](std::span<float> into, int64_t first) {
      if (first == 0) *all = floats(value);
      std::copy_n(all->begin() + first, into.size(), into.begin());
    };
    tensors.push_back({info.name, info.type.shape.shape(), read});
  }
  models::write_safetensors(spec.at(key), tensors);
}

// ---- by the reference evaluator ----

program::Arrays<double> arrays_of(run::Executor& executor, const Program& program) {
  program::Arrays<double> arrays;
  for (const auto* values : {&program.inputs, &program.parameters, &program.state}) {
    for (const Value value : *values) {
      program::Array<double> array(program[value].type.spec());
      const std::vector<float> floats = floats_of(executor, value);
      array.reals.assign(floats.begin(), is_floating(array.dtype) ? floats.end() : floats.begin());
      array.ints.assign(is_floating(array.dtype) ? floats.end() : floats.begin(), floats.end());
      arrays[program[value].name] = std::move(array);
    }
  }
  return arrays;
}

void evaluate_reference(const Json& spec, const Program& program, const std::vector<Value>& kept,
                        const program::Arrays<double>& given) {
  const program::Evaluation<double> found = program::evaluate(program, given);
  const auto floats = [](const program::Array<double>& array) {
    return is_floating(array.dtype) ? std::vector<float>(array.reals.begin(), array.reals.end())
                                    : std::vector<float>(array.ints.begin(), array.ints.end());
  };
  write(spec, "after", program, kept, [&](Value value) { return floats(found.after.at(program[value].name)); });
  write(spec, "outputs", program, program.outputs,
        [&](Value value) { return floats(found.outputs.at(program[value].name)); });
  fmt::print("[]\n");
}

void evaluate(const Json& spec) {
  const models::Step step = step_of(spec);
  run::Session session(step.program, {.threads = spec.value("threads", 2)}, machine_budget());
  run::Executor& executor = session.executor();
  train::start_values(executor, step.inits, step.state_inits, 1);
  train::fill_inputs(executor, 1);
  std::vector<Value> kept = step.program.parameters;
  kept.insert(kept.end(), step.program.state.begin(), step.program.state.end());
  const auto floats = [&executor](Value value) { return floats_of(executor, value); };
  write(spec, "before", step.program, kept, floats);
  write(spec, "inputs", step.program, step.program.inputs, floats);
  if (spec.value("reference", false))
    return evaluate_reference(spec, step.program, kept, arrays_of(executor, step.program));
  const int steps = spec.value("steps", 0);
  std::vector<float> losses;
  if (steps == 0) executor.step();
  if (steps > 0) {
    train::Trainer trainer(executor, {.rate = spec.value("rate", 1e-4)});
    for (int i = 0; i < steps; ++i) losses.push_back(trainer.step());
  }
  write(spec, "after", step.program, kept, floats);
  write(spec, "outputs", step.program, step.program.outputs, floats);
  if (spec.contains("save")) train::save_weights(plain_model(spec), executor, spec.at("save"));
  fmt::print("{}\n", Json(losses).dump());
}

}  // namespace
}  // namespace plimsoll

int main(int count, char** arguments) {
  try {
    if (count != 2) throw std::runtime_error("expected one argument: a JSON object");
    plimsoll::evaluate(plimsoll::Json::parse(arguments[1]));
  } catch (const std::exception& error) {
    fmt::print(stderr, "model_eval: {}\n", error.what());
    return 1;
  }
}
