#include "tests/models/onnx_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/models/onnx/importer.h"
#include "plimsoll/models/onnx/losses.h"
#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/passes/optimize.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/initialize.h"

namespace plimsoll::models {
namespace {

using namespace onnx_import;
namespace fs = std::filesystem;

struct Case {
  std::shared_ptr<ModelFile> file = std::make_shared<ModelFile>();
  std::vector<TensorProto> inputs, outputs;
};

std::vector<TensorProto> read_tensors(const fs::path& folder, const std::string& kind) {
  std::vector<TensorProto> tensors;
  for (int i = 0;; ++i) {
    const fs::path path = folder / fmt::format("{}_{}.pb", kind, i);
    if (!fs::exists(path)) return tensors;
    TensorProto tensor;
    if (!tensor.ParseFromString(read_file(path.string())) || tensor.data_type() == 0) {
      throw UnsupportedError("sequences and optionals from outside");
    }
    tensors.push_back(std::move(tensor));
  }
}

// Old sets keep bf16 as the unsigned integers of its bits.
template <class Values>
void read_as_declared(std::vector<TensorProto>& tensors, const Values& declared) {
  for (size_t i = 0; i < tensors.size() && static_cast<int>(i) < declared.size(); ++i) {
    const int32_t type = declared.Get(static_cast<int>(i)).type().tensor_type().elem_type();
    if (type == TensorProto::BFLOAT16 && tensors[i].data_type() == TensorProto::UINT16) {
      tensors[i].set_data_type(TensorProto::BFLOAT16);
    }
  }
}

Case read_one(const std::string& folder) {
  Case one;
  one.file->name = "model.onnx";
  if (!one.file->proto.ParseFromString(read_file(folder + "/model.onnx"))) throw UnsupportedError("no model");
  one.inputs = read_tensors(fs::path(folder) / "test_data_set_0", "input");
  one.outputs = read_tensors(fs::path(folder) / "test_data_set_0", "output");
  read_as_declared(one.inputs, one.file->proto.graph().input());
  read_as_declared(one.outputs, one.file->proto.graph().output());
  return one;
}

std::vector<double> elements_of(const std::shared_ptr<const ModelFile>& file, const TensorProto& tensor) {
  const TensorData data(file, tensor);
  std::vector<double> elements(static_cast<size_t>(data.elements()));
  data.read(std::span(elements), 0);
  return elements;
}

// What a run gave: elements of each output and its shape.
struct Output {
  Shape shape;
  std::vector<double> elements;
};

template <class T>
std::vector<double> as_doubles(const std::vector<T>& data) {
  return {data.begin(), data.end()};
}

std::vector<Output> run_kernels(const Model& model, const std::map<std::string, std::vector<double>>& inputs) {
  run::Session session(model.program, {.threads = 1}, machine_budget());
  run::Executor& executor = session.executor();
  train::start_values(executor, model.inits, model.state_inits, 1);
  const program::Program& program = executor.program();
  for (const program::Value input : program.inputs) {
    const std::vector<double>& values = inputs.at(program[input].name);
    if (program[input].type.dtype == DType::i64) {
      executor.write<int64_t>(input, std::vector<int64_t>(values.begin(), values.end()));
    } else {
      executor.write<float>(input, std::vector<float>(values.begin(), values.end()));
    }
  }
  executor.step();
  std::vector<Output> outputs;
  for (const program::Value output : program.outputs) {
    const program::Type type = program[output].type;
    Output one{type.shape.shape(), {}};
    if (type.dtype == DType::i64) one.elements = as_doubles(executor.read<int64_t>(output));
    if (type.dtype == DType::boolean) one.elements = as_doubles(executor.read<uint8_t>(output));
    if (type.dtype == DType::f32) one.elements = as_doubles(executor.read<float>(output));
    outputs.push_back(std::move(one));
  }
  return outputs;
}

std::vector<Output> run_reference(const Model& model, const std::map<std::string, std::vector<double>>& inputs) {
  const program::Program& program = model.program;
  program::Arrays<float> given;
  const auto put = [&](program::Value value, const std::vector<double>& values) {
    program::Array<float> array(program[value].type.spec());
    for (size_t i = 0; i < values.size(); ++i) {
      if (is_floating(array.dtype)) {
        array.reals[i] = static_cast<float>(values[i]);
      } else {
        array.ints[i] = static_cast<int64_t>(values[i]);
      }
    }
    given[program[value].name] = std::move(array);
  };
  for (const program::Value input : program.inputs) put(input, inputs.at(program[input].name));
  const auto put_given = [&](const std::vector<program::Value>& values, const std::vector<Init>& inits) {
    for (size_t i = 0; i < values.size(); ++i) {
      const auto count = static_cast<size_t>(program[values[i]].type.spec().shape.elements());
      std::vector<int64_t> ints(count);
      if (is_floating(program[values[i]].type.dtype)) {
        put(values[i], draw(inits[i], static_cast<int64_t>(count), 1, i));
      } else {
        inits[i].values->read(std::span(ints), 0);
        put(values[i], {ints.begin(), ints.end()});
      }
    }
  };
  put_given(program.parameters, model.inits);
  put_given(program.state, model.state_inits);
  const auto evaluation = program::evaluate<float>(program, given);
  std::vector<Output> outputs;
  for (const program::Value output : program.outputs) {
    const auto& array = evaluation.values[static_cast<size_t>(output.index)];
    outputs.push_back({array.shape, is_floating(array.dtype)
                                        ? std::vector<double>(array.reals.begin(), array.reals.end())
                                        : std::vector<double>(array.ints.begin(), array.ints.end())});
  }
  return outputs;
}

double tolerance_of(int type) {
  return type == TensorProto::FLOAT16 ? 4e-3 : (type == TensorProto::BFLOAT16 ? 2e-2 : 1e-3);
}

std::optional<std::string> difference(const Case& one, const std::vector<Output>& outputs) {
  if (outputs.size() != one.outputs.size()) return "another number of outputs";
  for (size_t k = 0; k < outputs.size(); ++k) {
    const TensorData data(one.file, one.outputs[k]);
    if (outputs[k].shape != data.shape()) {
      return fmt::format("output {} is {}, expected {}", k, outputs[k].shape.text(), data.shape().text());
    }
    const std::vector<double> expected = elements_of(one.file, one.outputs[k]);
    const double relative = tolerance_of(one.outputs[k].data_type());
    for (size_t i = 0; i < expected.size(); ++i) {
      const double found = outputs[k].elements.at(i);
      const bool same = found == expected[i] || (std::isnan(found) && std::isnan(expected[i])) ||
                        std::abs(found - expected[i]) <= 1e-5 + relative * std::abs(expected[i]);
      if (!same) return fmt::format("output {} element {} is {}, expected {}", k, i, found, expected[i]);
    }
  }
  return std::nullopt;
}

// The inputs from place `first` on that `is_fixed` become initializers.
enum class Fixed { none, settings, all };

bool is_fixed(const TensorProto& tensor, size_t place, Fixed fixed) {
  if (fixed == Fixed::none) return false;
  if (fixed == Fixed::all) return true;
  const bool is_real = tensor.data_type() == TensorProto::FLOAT || tensor.data_type() == TensorProto::DOUBLE ||
                       tensor.data_type() == TensorProto::FLOAT16;
  int64_t count = 1;
  for (const int64_t dim : tensor.dims()) count *= dim;
  return place > 0 && (!is_real || count <= 8);
}

// The graph's inputs that are given values: old files list their initializers as inputs, too.
std::vector<std::string> input_names(const GraphProto& graph) {
  std::set<std::string> held;
  for (const TensorProto& tensor : graph.initializer()) held.insert(tensor.name());
  std::vector<std::string> names;
  for (const ValueInfoProto& input : graph.input()) {
    if (!held.contains(input.name())) names.push_back(input.name());
  }
  return names;
}

struct Built {
  Model model;
  std::map<std::string, std::vector<double>> inputs;
};

Built build(const Case& one, Fixed fixed) {
  auto file = std::make_shared<ModelFile>(*one.file);
  Built built;
  ImportOptions options{.batch_is_symbol = false, .as_written = true};
  const std::vector<std::string> names = input_names(one.file->proto.graph());
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    TensorProto tensor = one.inputs[i];
    const std::string& name = names.at(i);
    tensor.set_name(name);
    const std::vector<int64_t> dims(tensor.dims().begin(), tensor.dims().end());
    options.inputs[name] = Dims(Shape(dims));
    if (is_fixed(tensor, i, fixed)) {
      // As a Constant node, which is never trained.
      NodeProto* node = file->proto.mutable_graph()->add_node();
      node->set_op_type("Constant");
      node->add_output(name);
      AttributeProto* value = node->add_attribute();
      value->set_name("value");
      *value->mutable_t() = tensor;
      for (int k = file->proto.graph().node_size() - 1; k > 0; --k)
        file->proto.mutable_graph()->mutable_node()->SwapElements(k, k - 1);
      auto* inputs = file->proto.mutable_graph()->mutable_input();
      for (int k = 0; k < inputs->size(); ++k) {
        if (inputs->Get(k).name() == name) inputs->DeleteSubrange(k--, 1);
      }
    }
  }
  Net net({.training = false});
  Importer importer(net, file, options);
  importer.run();
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    if (is_fixed(one.inputs[i], i, fixed)) continue;
    built.inputs[importer.input_name(names.at(i))] = elements_of(one.file, one.inputs[i]);
  }
  built.model = with_outputs(std::move(net), importer, false);
  return built;
}

std::optional<std::string> try_case(const Case& one, Fixed fixed, std::string& how) {
  const Built built = build(one, fixed);
  std::vector<Output> outputs;
  try {
    outputs = run_kernels(built.model, built.inputs);
  } catch (const UnsupportedError&) {
    outputs = run_reference(built.model, built.inputs);
    how += how.empty() ? "reference" : ", reference";
  }
  return difference(one, outputs);
}

}  // namespace

CaseResult run_case(const std::string& folder) {
  CaseResult result;
  result.name = fs::path(folder).filename().string();
  try {
    const Case one = read_one(folder);
    if (one.file->proto.graph().node_size() > 0) result.op = one.file->proto.graph().node(0).op_type();
    for (const Fixed fixed : {Fixed::none, Fixed::settings, Fixed::all}) {
      try {
        result.how = fixed == Fixed::none ? "" : "constant operands";
        const auto wrong = try_case(one, fixed, result.how);
        result.outcome = wrong ? CaseResult::Outcome::wrong : CaseResult::Outcome::pass;
        result.why = wrong.value_or("");
        return result;
      } catch (const Error& error) {
        result.outcome = CaseResult::Outcome::unsupported;
        if (fixed != Fixed::all) result.why = error.what();
      }
    }
  } catch (const Error& error) {
    result.outcome = CaseResult::Outcome::unsupported;
    result.why = error.what();
  }
  return result;
}

std::vector<CaseResult> run_cases(const std::string& folder) {
  std::vector<std::string> folders;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (fs::exists(entry.path() / "model.onnx")) folders.push_back(entry.path().string());
  }
  std::sort(folders.begin(), folders.end());
  std::vector<CaseResult> results;
  for (const std::string& one : folders) results.push_back(run_case(one));
  return results;
}

std::string conformance_page(const std::vector<CaseResult>& results, const std::string& source) {
  struct Count {
    int pass = 0, all = 0;
  };
  std::map<std::string, Count> by_op;
  Count whole;
  for (const CaseResult& result : results) {
    const bool pass = result.outcome == CaseResult::Outcome::pass;
    for (Count* count : {&by_op[result.op], &whole}) {
      count->all += 1;
      count->pass += pass ? 1 : 0;
    }
  }
  std::string page = fmt::format(
      "# ONNX ops\n\nONNX's conformance cases ({}): {} of {} pass, {:.1f} %. Generated by `OnnxConformance` in\n"
      "`tests/models/onnx_conformance_test.cc`; each case that does not pass is below with its reason.\n\n"
      "| op | pass | cases |\n|---|---|---|\n",
      source, whole.pass, whole.all, 100.0 * whole.pass / std::max(1, whole.all));
  for (const auto& [op, count] : by_op) page += fmt::format("| {} | {} | {} |\n", op, count.pass, count.all);
  page += "\n## Cases that do not pass\n\n| case | why |\n|---|---|\n";
  for (const CaseResult& result : results) {
    if (result.outcome == CaseResult::Outcome::pass) continue;
    std::string why = result.why.substr(0, result.why.find('\n'));
    if (why.starts_with("model.onnx: ")) why = why.substr(12);
    for (char& c : why) c = c == '|' ? '/' : (static_cast<unsigned char>(c) > 126 ? '?' : c);
    if (result.outcome == CaseResult::Outcome::wrong) why = "WRONG: " + why;
    page += fmt::format("| {} | {} |\n", result.name, why.substr(0, 160));
  }
  return page;
}

}  // namespace plimsoll::models
