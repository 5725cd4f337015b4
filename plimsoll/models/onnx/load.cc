#include "plimsoll/models/onnx/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>

#include "plimsoll/base/error.h"
#include "plimsoll/models/onnx/importer.h"
#include "plimsoll/models/onnx/losses.h"
#include "plimsoll/models/onnx/symbols.h"
#include "plimsoll/program/passes/optimize.h"

namespace plimsoll::models {
namespace onnx_import {
namespace {

using File = std::shared_ptr<const ModelFile>;

constexpr int64_t kUsualBatch = 8;
constexpr int64_t kUsualSequence = 128;

using Counts = std::map<std::string, int>;

Counts ops_by_name(const program::Program& program) {
  Counts count;
  for (const program::Op& op : program.ops) {
    const bool biased = op.inputs.size() > 2 && (op.def->name == "linear" || op.def->name == "conv");
    ++count[biased ? op.def->name + " with bias" : op.def->name];
  }
  return count;
}

// "12 attention, 12 gelu"
std::string found_by_fusing(const Counts& before, const Counts& after) {
  std::vector<std::string> found;
  for (const auto& [op, count] : after) {
    const auto was = before.find(op);
    const int more = count - (was == before.end() ? 0 : was->second);
    const bool told = op == "attention" || op.starts_with("gelu") || op == "silu" || op.ends_with("_norm") ||
                      op.ends_with("with bias");
    if (told && more > 0) found.push_back(fmt::format("{} {}", more, op));
  }
  return fmt::format("{}", fmt::join(found, ", "));
}

// PyTorch's older exporter gives such weights names of its own.
std::string folded_norms(const ModelFile& file) {
  const auto& nodes = file.proto.graph().node();
  const auto count = std::count_if(nodes.begin(), nodes.end(), [](const NodeProto& node) {
    return node.op_type() == "Conv" && node.input_size() > 2 && node.input(1).starts_with("onnx::Conv_");
  });
  if (count == 0) return {};
  return fmt::format(
      "{} convolutions have batch norms folded into their weights by the exporter, and train without them", count);
}

struct Imported {
  Model model;
  std::vector<std::string> notes;
};

Imported import_model(const File& file, const ImportOptions& options, const OnnxOptions& asked,
                      const NetOptions& net_options) {
  Net net(net_options);
  Importer importer(net, file, options);
  importer.run();
  std::vector<std::string> notes;
  Model model = net_options.training ? with_loss(std::move(net), importer, asked.loss, notes)
                                     : with_outputs(std::move(net), importer);
  notes.insert(notes.end(), importer.notes().begin(), importer.notes().end());
  if (const std::string folded = folded_norms(*file); net_options.training && !folded.empty()) notes.push_back(folded);
  const Counts written = ops_by_name(model.program);
  model.program = program::simplify(std::move(model.program));
  const std::string found = found_by_fusing(written, ops_by_name(model.program));
  if (!found.empty()) notes.push_back("put together again: " + found);
  model.result = model.program.outputs.front();
  if (net_options.training) model.loss = model.result;
  return {std::move(model), std::move(notes)};
}

// Builds each form once.
class Builds {
 public:
  Builds(File file, ImportOptions options, OnnxOptions asked)
      : file_(std::move(file)), options_(std::move(options)), asked_(std::move(asked)) {}

  const Imported& get(const NetOptions& net) {
    const std::lock_guard lock(mutex_);
    const auto key = std::pair(net.dtype, net.training);
    const auto found = made_.find(key);
    if (found != made_.end()) return found->second;
    return made_.emplace(key, import_model(file_, options_, asked_, net)).first->second;
  }

 private:
  File file_;
  ImportOptions options_;
  OnnxOptions asked_;
  std::mutex mutex_;
  std::map<std::pair<DType, bool>, Imported> made_;
};

int64_t usual_size(const std::string& symbol) {
  if (symbol == "batch") return kUsualBatch;
  if (symbol == "sequence") return kUsualSequence;
  const bool is_side = symbol.find("height") != std::string::npos || symbol.find("width") != std::string::npos;
  return is_side ? 224 : 1;
}

// All symbols of the inputs.
std::set<std::string> open_symbols(const ModelFile& file, const ImportOptions& options) {
  const Symbols symbols(file, options.batch_is_symbol);
  std::set<std::string> open;
  std::set<std::string> weights;
  for (const TensorProto& tensor : file.proto.graph().initializer()) weights.insert(tensor.name());
  for (const ValueInfoProto& input : file.proto.graph().input()) {
    if (weights.contains(input.name()) || !input.type().has_tensor_type()) continue;
    const auto given = options.inputs.find(input.name());
    const Dims dims = given == options.inputs.end() ? symbols.dims_of(input) : given->second;
    for (const Dim dim : dims) dim.collect_symbols(open);
  }
  return open;
}

// Tokens of a sample, where the file has a number for them: the second dimension of a matrix of integers. 0: it has
// none.
int64_t fixed_sequence(const ModelFile& file) {
  for (const ValueInfoProto& input : file.proto.graph().input()) {
    const auto& tensor = input.type().tensor_type();
    if (tensor.elem_type() == TensorProto::INT64 && tensor.shape().dim_size() == 2 &&
        tensor.shape().dim(1).dim_value() > 0) {
      return tensor.shape().dim(1).dim_value();
    }
  }
  return 0;
}

// Those that are no initializers.
std::string input_names(const ModelFile& file) {
  std::set<std::string> weights;
  for (const TensorProto& tensor : file.proto.graph().initializer()) weights.insert(tensor.name());
  std::vector<std::string> names;
  for (const ValueInfoProto& input : file.proto.graph().input()) {
    if (!weights.contains(input.name())) names.push_back(quote(input.name()));
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

void check_names(const ModelFile& file, const std::set<std::string>& open, const OnnxOptions& asked) {
  for (const auto& [symbol, size] : asked.sizes) {
    const bool is_fixed = symbol == "batch" || (symbol == "sequence" && fixed_sequence(file) == size);
    if (!is_fixed && !open.contains(symbol)) {
      throw ArgumentError(fmt::format("{} has no dimension {}; it has {}", file.name, quote(symbol),
                                      open.empty() ? "none" : fmt::format("{}", fmt::join(open, ", "))));
    }
    if (size < 1 || size > INT32_MAX) {
      throw ArgumentError(fmt::format("{} {} is out of range: expected 1 to {}", symbol, size, INT32_MAX));
    }
  }
  for (const auto& [name, dims] : asked.inputs) {
    const auto& inputs = file.proto.graph().input();
    const auto is_named = [&wanted = name](const auto& input) { return input.name() == wanted; };
    if (std::none_of(inputs.begin(), inputs.end(), is_named)) {
      throw ArgumentError(fmt::format("{} has no input {}; it has {}", file.name, quote(name), input_names(file)));
    }
  }
}

// With `batch` open where the graph allows it, else bound.
struct Loaded {
  std::shared_ptr<Builds> builds;
  program::Bindings usual;
  program::Bindings fixed;
};

Loaded try_load(const File& file, ImportOptions options, const OnnxOptions& asked, bool open_batch) {
  options.batch_is_symbol = open_batch;
  Loaded loaded;
  for (const std::string& symbol : open_symbols(*file, options)) {
    const auto given = asked.sizes.find(symbol);
    int64_t size = given == asked.sizes.end() ? usual_size(symbol) : given->second;
    const int64_t in_file = symbol == "batch" ? Symbols(*file, true).fixed_batch() : 0;
    if (given == asked.sizes.end() && in_file > 0) size = in_file;
    loaded.usual[symbol] = size;
    if (symbol == "batch" && open_batch) continue;
    options.sizes[symbol] = size;
    loaded.fixed[symbol] = size;
  }
  if (const int64_t tokens = fixed_sequence(*file); tokens > 0 && loaded.usual.try_emplace("sequence", tokens).second) {
    loaded.fixed["sequence"] = tokens;
  }
  loaded.usual.try_emplace("batch", std::max<int64_t>(1, Symbols(*file, true).fixed_batch()));
  if (!loaded.usual.contains("batch") || !open_symbols(*file, options).contains("batch")) {
    loaded.fixed["batch"] = loaded.usual["batch"];
  }
  loaded.builds = std::make_shared<Builds>(file, options, asked);
  loaded.builds->get({.training = false});
  return loaded;
}

ModelInfo load(const File& file, const OnnxOptions& asked) {
  if (!asked.assume_shapes) {
    if (const std::string missing = missing_ops(*file); !missing.empty()) {
      throw UnsupportedError(
          fmt::format("{} has ops without a rule:{}\n--assume-shapes estimates it by the shapes that "
                      "the file has, where it has them",
                      file->name, missing));
    }
  }
  ImportOptions options;
  options.inputs = asked.inputs;
  options.draw_missing = asked.init;
  options.assume_shapes = asked.assume_shapes;
  check_names(*file, open_symbols(*file, options), asked);
  Loaded loaded;
  try {
    loaded = try_load(file, options, asked, true);
  } catch (const Error&) {  // perhaps it is written for one batch
    loaded = try_load(file, options, asked, false);
  }
  ModelInfo info;
  info.name = file->name;
  info.description = fmt::format("ONNX, opset {}", file->opset());
  info.build = [builds = loaded.builds](const NetOptions& net, Size /*size*/) { return builds->get(net).model; };
  info.notes = [builds = loaded.builds](const NetOptions& net) { return builds->get(net).notes; };
  info.usual = loaded.usual;
  info.fixed = loaded.fixed;
  return info;
}

}  // namespace
}  // namespace onnx_import

ModelInfo load_onnx(const std::string& path, const OnnxOptions& options) {
  return onnx_import::load(onnx_import::read_model_file(path), options);
}

ModelInfo parse_onnx(std::string_view bytes, const std::string& name, const OnnxOptions& options) {
  return onnx_import::load(onnx_import::parse_model_file(bytes, name), options);
}

}  // namespace plimsoll::models
