#include "cli/model_options.h"

#include <fmt/format.h>

#include <charconv>

#include "cli/console.h"
#include "plimsoll/base/error.h"
#include "plimsoll/device/device.h"
#include "plimsoll/models/adapt.h"
#include "plimsoll/models/onnx/load.h"
#include "plimsoll/models/weights/weights.h"

namespace plimsoll::cli {
namespace {

// At least one; that there are not too many is checked where they are used.
std::string require_thread(const std::string& text) {
  int threads = 1;
  std::from_chars(text.data(), text.data() + text.size(), threads);
  if (threads >= 1) return {};
  throw ArgumentError(fmt::format("--threads is {}, expected 1 to {}", threads, kernels::thread_count({})));
}

bool is_model_file(const std::string& model) { return model.ends_with(".onnx"); }

// "NAME=VALUE"
std::pair<std::string, std::string> parse_named(std::string_view option, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw ArgumentError(fmt::format("{} is {}, expected NAME=VALUE", option, quote(text)));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

models::OnnxOptions onnx_options(const ModelOptions& options) {
  models::OnnxOptions onnx{.loss = options.loss, .init = options.init, .assume_shapes = options.assume_shapes};
  if (options.batch) onnx.sizes["batch"] = *options.batch;
  if (options.sequence) onnx.sizes["sequence"] = *options.sequence;
  for (const std::string& text : options.dims) {
    const auto [name, size] = parse_named("--dim", text);
    int64_t number = 0;
    const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), number);
    if (error != std::errc() || end != size.data() + size.size()) {
      throw ArgumentError(fmt::format("--dim {}: expected a whole number", quote(text)));
    }
    onnx.sizes[name] = number;
  }
  for (const std::string& text : options.inputs) {
    const auto [name, shape] = parse_named("--input", text);
    onnx.inputs[name] = program::Dims(parse_shape(shape));
  }
  return onnx;
}

models::AdaptOptions adapt_options(const ModelOptions& options) {
  models::AdaptOptions adapt{.freeze = options.freeze};
  if (!options.lora.empty()) {
    adapt.lora = models::parse_lora(options.lora);
    adapt.lora->targets = options.lora_targets;
  } else if (!options.lora_targets.empty()) {
    throw ArgumentError("--lora-target says where --lora stands: give that, too");
  }
  return adapt;
}

program::Optimizer parse_optimizer(const std::string& text) {
  const auto optimizer = program::try_parse_optimizer(text);
  if (!optimizer) {
    throw ArgumentError(
        fmt::format("--optimizer is {}, expected sgd, momentum, adam, adamw, lion or adafactor", quote(text)));
  }
  return *optimizer;
}

bool parse_training(const std::string& mode) {
  if (mode != "train" && mode != "infer") {
    throw ArgumentError(fmt::format("--mode is {}, expected train or infer", quote(mode)));
  }
  return mode == "train";
}

}  // namespace

void add_model_options(const Command& verb, ModelOptions& options) {
  verb.add_option("MODEL", options.model, "A built-in model (`plimsoll models` lists them) or a path to an .onnx file")
      .required();
  verb.add_option("--batch,--batch-size", options.batch, "Samples in a step");
  verb.add_option("--seq", options.sequence, "Tokens in a sample");
  verb.add_option("--threads", options.threads, "Threads to compute with; all when not given").check(require_thread);
  verb.add_flag("--json", options.json, "Print JSON");
  verb.add_option("--dim", options.dims, "Of a file: the size of a dimension that it names, NAME=1024").repeats();
  verb.add_option("--input", options.inputs, "Of a file: the shape of an input, NAME=2x128").repeats();
  verb.add_option("--loss", options.loss, "Of a file: cross-entropy lm mse bce, or an output");
  verb.add_flag("--init", options.init, "Of a file: draw values that it does not have");
  verb.add_flag("--assume-shapes", options.assume_shapes, "Of a file: estimate ops that are not known by their shapes");
  verb.add_option("--freeze", options.freeze, "Do not train parameters whose names fit this pattern: 'layer1.*'")
      .repeats();
  verb.add_option("--lora", options.lora, "Train narrow matrices beside linear layers instead: r=8 or r=8,alpha=16");
  verb.add_option("--lora-target", options.lora_targets, "Beside these weights only: '*attn*'").repeats();
  verb.add_option("--weights", options.weights, "Values of parameters: .safetensors or its index, .npz, .pt");
}

void add_device_option(const Command& verb, ModelOptions& options) {
  verb.add_option("--device", options.device, "cpu, cuda, cuda:N, and cuda:h200 and others to plan for")
      .shows_default();
}

void add_optimizer_option(const Command& verb, ModelOptions& options) {
  verb.add_option("--optimizer", options.optimizer, "sgd momentum adam adamw lion adafactor").shows_default();
}

void add_allow_option(const Command& verb, std::vector<std::string>& allow) {
  verb.add_option("--allow", allow, "Measures that change the numbers: batch-norm-micro-batches, 8-bit-state");
}

void add_shard_options(const Command& verb, std::string& shard, std::string& bucket) {
  verb.add_option("--shard", shard,
                  "Of several ranks, what each holds a part of: none optimizer gradients parameters auto")
      .shows_default();
  verb.add_option("--bucket", bucket, "Of several ranks: gradients below it are summed together").shows_default();
}

void add_rank_options(const Command& verb, train::RankOptions& options) {
  verb.add_option("--ranks", options.ranks, "Processes that share the batch, as mpirun would start them")
      .in_range(1, train::kMostRanksOnPaper);
  add_shard_options(verb, options.shard, options.bucket);
  verb.add_option("--link", options.link, "Between ranks: 10GbE 25GbE 100GbE IB NVLink, or a rate, 1.2GB/s")
      .shows_default();
}

models::ModelInfo find_plain_model(const ModelOptions& options) {
  if (is_model_file(options.model)) return models::load_onnx(options.model, onnx_options(options));
  const auto refuse = [&](bool given, std::string_view name) {
    if (given)
      throw ArgumentError(fmt::format("{} is for models of files, and {} is none", name, quote(options.model)));
  };
  refuse(!options.dims.empty(), "--dim");
  refuse(!options.inputs.empty(), "--input");
  refuse(!options.loss.empty(), "--loss");
  refuse(options.assume_shapes, "--assume-shapes");
  return models::find_model(options.model);
}

models::ModelInfo find_model(const ModelOptions& options) {
  models::ModelInfo info = find_plain_model(options);
  if (!options.weights.empty()) info = models::with_weights(std::move(info), options.weights);
  return models::adapt(std::move(info), adapt_options(options));
}

kernels::DeviceOptions device_options(const ModelOptions& options) {
  device::find_device(options.device);
  return {.device = options.device, .threads = options.threads};
}

models::StepOptions step_options(const ModelOptions& options) {
  models::StepOptions step;
  step.training = parse_training(options.mode);
  const bool tf32 = options.precision == "tf32";
  if (tf32 && !options.device.starts_with("cuda")) throw ArgumentError("tf32 is a precision of cards: --device cuda");
  device::allow_tf32(tf32);
  step.precision = tf32 ? DType::f32 : parse_dtype(options.precision);
  step.train.optimizer = parse_optimizer(options.optimizer);
  if (options.batch) step.sizes["batch"] = *options.batch;
  if (options.sequence) step.sizes["sequence"] = *options.sequence;
  return step;
}

void tell_notes(const models::ModelInfo& model, const models::StepOptions& step) {
  if (!model.notes) return;
  const DType dtype = step.precision == DType::i8 ? DType::f32 : step.precision;
  for (const std::string& note : model.notes({.dtype = dtype, .training = step.training})) tell("note: {}\n", note);
}

train::StartedSession start_session(const ModelOptions& options, uint64_t seed) {
  const models::ModelInfo model = find_model(options);
  const models::StepOptions step = step_options(options);
  const kernels::DeviceOptions device = device_options(options);
  tell_notes(model, step);
  return train::start_session(model, step, device, seed);
}

train::Listener terminal_listener() {
  train::Listener listener{.on_note = [](const std::string& note) { tell("note: {}\n", note); }};
  if (shows_progress()) {
    listener.on_measure = [](size_t done, size_t all) {
      show_progress(fmt::format("measuring kernels: {} of {}", done, all));
    };
    listener.on_alternative = [](const std::string& how) {
      show_progress(fmt::format("looking for what would fit: {}", how));
    };
  }
  return listener;
}

train::StepRequest request_of(const ModelOptions& options, const FormOptions& form, const program::Bindings& sizes) {
  train::StepRequest request{.model = find_model(options),
                             .step = step_options(options),
                             .allow = form.allow,
                             .micro_batches = form.micro_batches,
                             .recompute = form.recompute,
                             .measure = form.measure && options.device == "cpu",  // by kernels of the host
                             .measure_s = form.measure_s,
                             .device = options.device,
                             .threads = options.threads,
                             .listener = terminal_listener()};
  for (const auto& [symbol, size] : sizes) request.step.sizes[symbol] = size;
  return request;
}

}  // namespace plimsoll::cli
