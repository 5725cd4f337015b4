#include "plimsoll/train/compress.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "plimsoll/base/error.h"
#include "plimsoll/device/device.h"
#include "plimsoll/program/builder.h"
#include "plimsoll/run/floats.h"
#include "plimsoll/train/initialize.h"
#include "plimsoll/train/pruning.h"
#include "plimsoll/train/start_session.h"
#include "plimsoll/train/synthetic.h"

namespace plimsoll::train {
namespace {

using models::CompressedTensor;
using models::CompressedTensors;
using program::Program;
using program::Value;

constexpr int64_t kLeastBytes = 4096;  // of a tensor: smaller ones are not worth scales

program::Bindings known_sizes(const models::ModelInfo& model, const models::StepOptions& step, const Program& program) {
  program::Bindings sizes = models::bindings(model, step.sizes);
  const std::set<std::string> symbols = program::symbols(program);
  std::erase_if(sizes, [&](const auto& size) { return !symbols.contains(size.first); });
  return sizes;
}

models::Model build_inference(const models::ModelInfo& model, const models::StepOptions& step) {
  models::Model built = model.build({.dtype = DType::f32, .training = false}, step.size);
  built.program = program::bind(built.program, known_sizes(model, step, built.program));
  return built;
}

// All that the model holds, as it starts.
Tensors read_tensors(const models::Model& model, uint64_t seed) {
  Tensors tensors;
  uint64_t stream = 0;
  const auto add = [&](const std::vector<Value>& values, const std::vector<models::Init>& inits) {
    for (size_t i = 0; i < inits.size(); ++i, ++stream) {
      const program::ValueInfo& info = model.program[values[i]];
      if (!is_floating(info.type.dtype)) continue;
      Tensor tensor{info.name, info.type.shape.shape(), {}};
      tensor.values.resize(static_cast<size_t>(tensor.shape.elements()));
      models::draw(inits[i], tensor.values, seed, stream);
      tensors.push_back(std::move(tensor));
    }
  };
  add(model.program.parameters, model.inits);
  add(model.program.state, model.state_inits);
  return tensors;
}

CompressedTensors plain_tensors(const Tensors& tensors) {
  CompressedTensors plain;
  for (const Tensor& tensor : tensors) plain.push_back(models::plain_tensor(tensor.name, tensor.shape, tensor.values));
  return plain;
}

models::ModelInfo model_of(const models::ModelInfo& model, CompressedTensors tensors) {
  return models::with_tensors(model, std::make_shared<const CompressedTensors>(std::move(tensors)), "the compression");
}

// ---- data ----

// Batches for runs that are to be compared: the same again and again.
class TestBatches {
 public:
  // ArgumentError where none is left to test on.
  TestBatches(Batches* data, int64_t batch, const CompressOptions& options)
      : data_(data),
        batch_(batch),
        seed_(options.seed),
        first_test_(data == nullptr ? 0 : options.calibration_batches) {
    if (data != nullptr && data->batches_per_epoch() <= first_test_) {
      throw ArgumentError(
          fmt::format("the data has {} batches, of which {} are to calibrate on: none is left to test on",
                      data->batches_per_epoch(), first_test_));
    }
  }

  bool has_data() const { return data_ != nullptr; }
  int64_t first_test() const { return first_test_; }

  // Calls f(batch) for up to `count` whole ones from the `first` on.
  template <class F>
  void each(int64_t first, int64_t count, const F& f) const {
    if (data_ == nullptr) return f(SyntheticBatch(seed_));
    data_->seek({0, first * batch_});
    for (int64_t i = 0; i < count; ++i) {
      const Delivered delivered = data_->next();
      if (!delivered.batch || delivered.samples < batch_) return;
      f(*delivered.batch);
    }
  }

 private:
  Batches* data_;
  int64_t batch_;
  uint64_t seed_;
  int64_t first_test_;
};

void fill(run::Executor& executor, const Batch& batch) {
  const Program& program = executor.program();
  for (const Value input : program.inputs) {
    executor.fill_bytes(input, [&](std::span<std::byte> into) { batch.read(program, input, 0, into); });
  }
}

using Importance = std::vector<std::vector<float>>;  // by layer and column of its weights

// How what a layer multiplies meets its weights: channel c of the one with `pixels` columns of the other.
struct Columns {
  int64_t channels = 0;
  int64_t inner = 1;   // elements of what is multiplied from one channel to the next
  int64_t pixels = 1;  // columns for each channel
};

// Nothing where the layer gathers, is in groups of channels, or reads a view.
std::optional<Columns> columns_of(const Program& program, const LayerWeights& layer) {
  if (!layer.input || program[layer.input].view) return std::nullopt;
  const program::Dims& x = program[layer.input].type.shape;
  const program::Dims& w = program[layer.weights].type.shape;
  const int axis = w.rank() > 2 ? 1 : x.rank() - 1;
  if (x[axis] != w[1]) return std::nullopt;
  return Columns{w[1].constant(), program::Dims(std::span(x.begin() + axis + 1, x.end())).elements().constant(),
                 program::Dims(std::span(w.begin() + 2, w.end())).elements().constant()};
}

void add_squares(std::span<const float> values, const Columns& columns, std::vector<float>& sums) {
  std::vector<double> squares(static_cast<size_t>(columns.channels));
  for (size_t i = 0; i < values.size(); ++i) {
    squares[i / static_cast<size_t>(columns.inner) % squares.size()] += std::pow(static_cast<double>(values[i]), 2);
  }
  const auto pixels = static_cast<size_t>(columns.pixels);
  sums.resize(squares.size() * pixels);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<float>(squares[i / pixels]);
}

// Sums of squares of what each layer's weights multiply, over some batches.
Importance importance_of(models::Model built, const kernels::DeviceOptions& device,
                         const std::vector<LayerWeights>& layers, const TestBatches& data,
                         const CompressOptions& options) {
  std::vector<Value>& outputs = built.program.outputs;
  for (const LayerWeights& layer : layers) {
    const bool is_there = std::find(outputs.begin(), outputs.end(), layer.input) != outputs.end();
    if (columns_of(built.program, layer) && !is_there) outputs.push_back(layer.input);
  }
  run::Session session(built.program, device, device::find_device(device.device).budget());
  run::Executor& executor = session.executor();
  start_values(executor, built.inits, built.state_inits, options.seed);
  Importance sums(layers.size());
  data.each(0, options.calibration_batches, [&](const Batch& batch) {
    fill(executor, batch);
    executor.step();
    for (size_t i = 0; i < layers.size(); ++i) {
      const auto columns = columns_of(built.program, layers[i]);
      if (columns) add_squares(run::read_floats(executor, layers[i].input), *columns, sums[i]);
    }
  });
  return sums;
}

// ---- measuring ----

struct Results {
  CompressedForm form;
  std::vector<float> values;     // of all test batches
  std::vector<int64_t> classes;  // of each sample, where the result is one line for each
  std::vector<int64_t> targets;  // where the data has them
};

// The input `target` of the training, where that is a class for each sample.
std::optional<Program> target_input(const models::ModelInfo& model, const models::StepOptions& step) {
  const models::Model training = model.build({.dtype = DType::f32, .training = true}, step.size);
  for (const Value input : training.program.inputs) {
    const program::ValueInfo& info = training.program[input];
    if (info.name != "target" || info.type.dtype != DType::i64 || info.type.shape.rank() != 1) continue;
    program::Builder b;
    b.output(b.input(info.name, info.type));
    Program alone = std::move(b).finish();
    return program::bind(alone, known_sizes(model, step, alone));
  }
  return std::nullopt;
}

void add_classes(std::span<const float> values, int64_t classes, std::vector<int64_t>& into) {
  for (size_t first = 0; first < values.size(); first += static_cast<size_t>(classes)) {
    const auto line = values.subspan(first, static_cast<size_t>(classes));
    into.push_back(std::max_element(line.begin(), line.end()) - line.begin());
  }
}

double share_equal(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  int64_t equal = 0;
  for (size_t i = 0; i < a.size(); ++i) equal += a[i] == b[i] ? 1 : 0;
  return static_cast<double>(equal) / static_cast<double>(std::max<size_t>(1, a.size()));
}

// The batch's targets, as far as there are such.
void add_targets(const std::optional<Program>& target, const Batch& batch, std::vector<int64_t>& into) {
  if (!target) return;
  const Value input = target->inputs[0];
  std::vector<int64_t> targets(static_cast<size_t>((*target)[input].type.shape[0].constant()));
  batch.read(*target, input, 0, std::as_writable_bytes(std::span(targets)));
  into.insert(into.end(), targets.begin(), targets.end());
}

double step_seconds(run::Executor& executor) {
  const auto start = std::chrono::steady_clock::now();
  executor.step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Results measure(const models::ModelInfo& model, const models::StepOptions& step, const kernels::DeviceOptions& device,
                const TestBatches& data, const CompressOptions& options) {
  const StartedSession started = start_session(model, step, device, options.seed);
  run::Executor& executor = started.session->executor();
  const std::optional<Program> target = data.has_data() ? target_input(model, step) : std::nullopt;
  const Value output = executor.program().outputs.front();
  const program::Dims shape = executor.program()[output].type.shape;
  Results results;
  results.form.arena_bytes = executor.arena_bytes();
  results.form.least_s = INFINITY;
  data.each(data.first_test(), options.test_batches, [&](const Batch& batch) {
    fill(executor, batch);
    results.form.least_s = std::min(results.form.least_s, step_seconds(executor));
    const std::vector<float> values = run::read_floats(executor, output);
    results.values.insert(results.values.end(), values.begin(), values.end());
    if (shape.rank() == 2) add_classes(values, shape[1].constant(), results.classes);
    add_targets(target, batch, results.targets);
  });
  for (int64_t i = 1; i < options.times; ++i) {
    results.form.least_s = std::min(results.form.least_s, step_seconds(executor));
  }
  if (!results.targets.empty() && results.targets.size() == results.classes.size()) {
    results.form.accuracy = share_equal(results.classes, results.targets);
  }
  return results;
}

double relative_error(const std::vector<float>& found, const std::vector<float>& right) {
  double difference = 0;
  double length = 0;
  for (size_t i = 0; i < right.size(); ++i) {
    difference += std::pow(static_cast<double>(found[i]) - static_cast<double>(right[i]), 2);
    length += std::pow(static_cast<double>(right[i]), 2);
  }
  return difference == 0 ? 0 : std::sqrt(difference / length);
}

void check(const CompressOptions& options) {
  if (options.bits != 32 && options.bits != 8 && options.bits != 4) {
    throw ArgumentError(fmt::format("weights of {} bits: expected 8, 4, or 32 as they are", options.bits));
  }
  if (!(options.prune >= 0 && options.prune < 1)) {
    throw ArgumentError(fmt::format("pruned by {}: expected a share from 0 to below 1", options.prune));
  }
  if (options.group < 2 || options.times < 1 || options.test_batches < 1 || options.calibration_batches < 1) {
    throw ArgumentError("groups have 2 weights or more; runs and batches are 1 or more");
  }
}

CompressedTensors quantized(const Tensors& tensors, const Program& program, const std::vector<LayerWeights>& layers,
                            const Importance& importance, const CompressOptions& options) {
  CompressedTensors found;
  for (const Tensor& tensor : tensors) {
    const auto layer = std::find_if(layers.begin(), layers.end(),
                                    [&](const LayerWeights& one) { return program[one.weights].name == tensor.name; });
    const auto bytes = static_cast<int64_t>(tensor.values.size() * sizeof(float));
    if (options.bits == 32 || layer == layers.end() || bytes < kLeastBytes) {
      found.push_back(models::plain_tensor(tensor.name, tensor.shape, tensor.values));
      continue;
    }
    const auto place = static_cast<size_t>(layer - layers.begin());
    found.push_back(models::quantize_tensor(tensor.name, tensor.shape, tensor.values, options.bits,
                                            options.bits == 8 ? 0 : options.group,
                                            importance.empty() ? std::vector<float>() : importance[place]));
  }
  return found;
}

int64_t elements_of(const Tensors& tensors) {
  int64_t sum = 0;
  for (const Tensor& tensor : tensors) sum += static_cast<int64_t>(tensor.values.size());
  return sum;
}

double zero_share(Tensors& tensors, const Program& program, const std::vector<LayerWeights>& layers) {
  int64_t zeros = 0;
  int64_t weights = 0;
  for (const LayerWeights& layer : layers) {
    const Tensor& tensor = tensor_of(tensors, program[layer.weights].name);
    zeros += std::count(tensor.values.begin(), tensor.values.end(), 0.0F);
    weights += static_cast<int64_t>(tensor.values.size());
  }
  return static_cast<double>(zeros) / static_cast<double>(std::max<int64_t>(1, weights));
}

void take_measured(CompressedForm& into, const CompressedForm& measured) {
  into.arena_bytes = measured.arena_bytes;
  into.least_s = measured.least_s;
  into.accuracy = measured.accuracy;
}

}  // namespace

Compression compress(const models::ModelInfo& model, const models::StepOptions& asked,
                     const kernels::DeviceOptions& device, Batches* data, const CompressOptions& options) {
  check(options);
  models::StepOptions step = asked;
  step.training = false;
  step.precision = DType::f32;
  const TestBatches batches(data, models::bindings(model, step.sizes).at("batch"), options);
  Compression result;
  const models::Model plain = build_inference(model, step);
  Tensors tensors = read_tensors(plain, options.seed);
  result.before.parameters = elements_of(tensors);
  result.before.weight_bytes = result.before.parameters * static_cast<int64_t>(sizeof(float));
  const PrunedChannels pruned_channels = prune(tensors, plain.program, options.prune, options.structured);
  result.channels = pruned_channels.all;
  result.pruned_channels = pruned_channels.pruned;
  result.after.parameters = elements_of(tensors);

  const models::Model pruned = build_inference(model_of(model, plain_tensors(tensors)), step);
  const std::vector<LayerWeights> layers = layers_of(pruned.program);
  const bool calibrates = options.bits != 32 && data != nullptr;
  const Importance importance = calibrates ? importance_of(pruned, device, layers, batches, options) : Importance();
  result.tensors = quantized(tensors, pruned.program, layers, importance, options);
  for (const CompressedTensor& tensor : result.tensors) result.after.weight_bytes += tensor.bytes();
  result.zero_share = zero_share(tensors, pruned.program, layers);

  const Results before = measure(model, step, device, batches, options);
  if (options.bits == 8) step.precision = DType::i8;
  const Results after = measure(model_of(model, result.tensors), step, device, batches, options);
  take_measured(result.before, before.form);
  take_measured(result.after, after.form);
  result.relative_error = relative_error(after.values, before.values);
  if (!before.classes.empty()) result.agreement = share_equal(after.classes, before.classes);
  result.test_samples = static_cast<int64_t>(before.classes.size());
  return result;
}

}  // namespace plimsoll::train
