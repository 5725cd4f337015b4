// Evaluates programs for the comparison with PyTorch. Reads one request a line, answers one line:
//   {"program": text, "inputs": {name: array}, "seeds": {output: array}, "wanted": [names]}
// and with "train": {"loss": name, "optimizer": name, and numbers of TrainOptions}, makes it a training step first
//   -> {"outputs": {name: array}, "gradients": {name: array}, "after": {name: array}} or {"error": message}
// with array = {"dtype": "f64", "shape": [2, 3], "data": [..]}. Gradients are of sum(output * seed); a wanted value
// that no output depends on is left out.
#include <iostream>
#include <nlohmann/json.hpp>

#include "plimsoll/base/error.h"
#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/text.h"
#include "plimsoll/program/train_step.h"

namespace plimsoll::program {
namespace {

using Json = nlohmann::json;

Array<double> read_array(const Json& json) {
  const auto dims = json.at("shape").get<std::vector<int64_t>>();
  Array<double> array(TensorSpec{parse_dtype(json.at("dtype").get<std::string>()), Shape(dims)});
  if (is_floating(array.dtype)) array.reals = json.at("data").get<std::vector<double>>();
  if (!is_floating(array.dtype)) array.ints = json.at("data").get<std::vector<int64_t>>();
  if (array.elements() != array.shape.elements()) throw ArgumentError("data and shape disagree");
  return array;
}

Json write_array(const Array<double>& array) {
  Json json = {{"dtype", name(array.dtype)}, {"shape", array.shape.dims()}};
  if (is_floating(array.dtype)) json["data"] = array.reals;
  if (!is_floating(array.dtype)) json["data"] = array.ints;
  return json;
}

Value named(const Program& program, const std::string& name) {
  const Value value = program.find(name);
  if (!value) throw ArgumentError("there is no value %" + name);
  return value;
}

Program training_step_of(Program model, const Json& train) {
  TrainOptions options;
  options.optimizer = try_parse_optimizer(train.at("optimizer").get<std::string>()).value();
  options.nesterov = train.value("nesterov", options.nesterov);
  options.weight_decay = train.value("weight_decay", options.weight_decay);
  options.momentum = train.value("momentum", options.momentum);
  options.beta1 = train.value("beta1", options.beta1);
  options.beta2 = train.value("beta2", options.beta2);
  options.eps = train.value("eps", options.eps);
  if (train.contains("clip_norm")) options.clip_norm = train.at("clip_norm").get<double>();
  const Value loss = named(model, train.at("loss").get<std::string>());
  return training_step(std::move(model), loss, options);
}

Json answer(const Json& request) {
  Program asked = parse_program(request.at("program").get<std::string>());
  if (request.contains("train")) asked = training_step_of(std::move(asked), request.at("train"));
  Builder b(std::move(asked));
  Arrays<double> given;
  for (const auto& [name, json] : request.at("inputs").items()) given[name] = read_array(json);
  std::vector<Root> roots;
  for (const auto& [name, json] : request.at("seeds").items()) {
    const Value output = named(b.program(), name);
    roots.push_back({output, b.input("seed." + name, b.type(output))});
    given["seed." + name] = read_array(json);
  }
  std::vector<Value> wanted;
  for (const auto& name : request.at("wanted")) wanted.push_back(named(b.program(), name.get<std::string>()));
  const std::vector<Value> found = gradients(b, roots, wanted);
  const Program program = std::move(b).finish();
  const Evaluation<double> evaluation = evaluate(program, given);
  Json reply = {{"outputs", Json::object()}, {"gradients", Json::object()}};
  for (const auto& [name, array] : evaluation.outputs) reply["outputs"][name] = write_array(array);
  for (const auto& [name, array] : evaluation.after) reply["after"][name] = write_array(array);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!found[i]) continue;
    const Array<double>& array = evaluation.values[static_cast<size_t>(found[i].index)];
    reply["gradients"][program[wanted[i]].name] = write_array(array);
  }
  return reply;
}

}  // namespace
}  // namespace plimsoll::program

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << plimsoll::program::answer(nlohmann::json::parse(line)) << std::endl;
    } catch (const std::exception& error) {
      std::cout << nlohmann::json{{"error", error.what()}} << std::endl;
    }
  }
}
