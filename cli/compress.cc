#include "plimsoll/train/compress.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/model_options.h"
#include "cli/verbs.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/duration.h"
#include "plimsoll/base/error.h"
#include "plimsoll/train/run_data.h"

namespace plimsoll::cli {
namespace {

struct CompressVerb {
  ModelOptions step;
  train::CompressOptions compress;
  std::string quantize;
  std::string data;
  std::string output;
};

int bits_of(const std::string& quantize) {
  if (quantize.empty()) return 32;
  if (quantize != "i8" && quantize != "i4") {
    throw ArgumentError(fmt::format("--quantize is {}, expected i8 or i4", quote(quantize)));
  }
  return quantize == "i8" ? 8 : 4;
}

// "weights of i8, 30 % of the channels pruned"
std::string what_text(const CompressVerb& verb, const train::Compression& done) {
  std::string text = verb.quantize.empty() ? "" : fmt::format("weights of {}", verb.quantize);
  if (verb.compress.prune > 0) {
    text += text.empty() ? "" : ", ";
    text += verb.compress.structured ? fmt::format("{} of {} channels pruned", format_count(done.pruned_channels),
                                                   format_count(done.channels))
                                     : fmt::format("{:.0f} % of the weights pruned", 100 * verb.compress.prune);
  }
  return text;
}

nlohmann::ordered_json form_json(const train::CompressedForm& form) {
  nlohmann::ordered_json json = {{"parameters", form.parameters},
                                 {"weight_bytes", form.weight_bytes},
                                 {"arena_bytes", form.arena_bytes},
                                 {"least_run_s", form.least_s}};
  if (form.accuracy) json["accuracy"] = *form.accuracy;
  return json;
}

void print_json(const CompressVerb& verb, const train::Compression& done) {
  nlohmann::ordered_json json = {{"model", verb.step.model},
                                 {"quantize", verb.quantize},
                                 {"prune", verb.compress.prune},
                                 {"structured", verb.compress.structured},
                                 {"output", verb.output}};
  json["before"] = form_json(done.before);
  json["after"] = form_json(done.after);
  json["relative_error"] = done.relative_error;
  if (done.agreement) json["agreement"] = *done.agreement;
  json["zero_share"] = done.zero_share;
  json["channels"] = done.channels;
  json["pruned_channels"] = done.pruned_channels;
  json["calibrated"] = !verb.data.empty() && !verb.quantize.empty();
  cli::print_json(json);
}

void print_notes(const CompressVerb& verb, const train::Compression& done) {
  if (verb.data.empty()) {
    print("  note: on synthetic inputs, not calibrated: give --data for errors that mean something\n");
  }
  if (verb.compress.prune > 0 && !verb.compress.structured) {
    print(
        "  note: {:.0f} % of the weights are zero, which saves neither memory nor time: dense\n"
        "        kernels read every weight; --structured removes whole channels\n",
        100 * done.zero_share);
  }
  if (verb.quantize == "i4") {
    print(
        "  note: 4 bits save bytes of the file; there are no kernels for them, so weights\n"
        "        are f32 while it runs\n");
  }
}

void print_text(const CompressVerb& verb, const train::Compression& done) {
  const auto line = [](std::string_view what, const std::string& before, const std::string& after) {
    print("  {:<12} {:>16}  {:>16}\n", what, before, after);
  };
  print("{}: {}\n", verb.step.model, what_text(verb, done));
  line("", "before", "after");
  line("parameters", format_count(done.before.parameters), format_count(done.after.parameters));
  line("weights", format_bytes(done.before.weight_bytes), format_bytes(done.after.weight_bytes));
  line("peak", format_bytes(done.before.arena_bytes), format_bytes(done.after.arena_bytes));
  line("fastest", format_seconds(done.before.least_s), format_seconds(done.after.least_s));
  if (done.before.accuracy && done.after.accuracy) {
    line("accuracy", fmt::format("{:.2f} %", 100 * *done.before.accuracy),
         fmt::format("{:.2f} %", 100 * *done.after.accuracy));
  }
  print("  the result is {:.3g} % off", 100 * done.relative_error);
  if (done.agreement) {
    print(", {:.2f} % of {} samples have the same class", 100 * *done.agreement, format_count(done.test_samples));
  }
  print("\n");
  print_notes(verb, done);
  if (!verb.output.empty()) print("  {}: run it with --weights\n", verb.output);
}

void run(const CompressVerb& verb) {
  train::CompressOptions options = verb.compress;
  options.bits = bits_of(verb.quantize);
  if (options.bits == 32 && options.prune == 0) throw ArgumentError("nothing to do: give --quantize, --prune or both");
  if (options.bits != 4 && options.group != train::CompressOptions{}.group) {
    throw ArgumentError("--group is of --quantize i4: give that, too");
  }
  if (options.structured && options.prune == 0) throw ArgumentError("--structured is of --prune: give that, too");
  const train::ModelForms model(request_of(verb.step, {}));
  train::RunData data;
  if (!verb.data.empty()) data = train::open_data({.path = verb.data}, model, options.seed);
  const train::Compression done = train::compress(model.request().model, model.request().step,
                                                  device_options(verb.step), data.batches.get(), options);
  if (!verb.output.empty()) models::write_compressed(verb.output, done.tensors);
  if (verb.step.json) return print_json(verb, done);
  print_text(verb, done);
}

}  // namespace

void add_compress(const Command& app, int& /*status*/) {
  const Command verb = app.add_verb("compress", "Quantize and prune a model, and show what that saves and costs");
  verb.footer(
      "Example: plimsoll compress lenet --weights lenet.safetensors --quantize i8\n"
      "                  --data digits/test -o small.safetensors\n"
      "         plimsoll compress p13 --batch 4 --prune 0.3 --structured");
  const auto options = std::make_shared<CompressVerb>();
  add_model_options(verb, options->step);
  add_device_option(verb, options->step);
  verb.add_option("--quantize", options->quantize, "i8: rows of bytes; i4: groups of 4 bits");
  verb.add_option("--group", options->compress.group, "Of i4: neighbours that share a scale").shows_default();
  verb.add_option("--prune", options->compress.prune, "Share of the weights that go, those with the least values")
      .in_range(0, 0.99);
  verb.add_flag("--structured", options->compress.structured, "Prune whole channels: bytes and time fall");
  verb.add_option("--data", options->data, "Data to calibrate and test on: as `plimsoll train` takes it");
  verb.add_option("-o,--output", options->output, "A .safetensors file, for --weights of other verbs");
  verb.add_option("--times", options->compress.times, "Runs, of which the fastest counts").shows_default();
  verb.add_option("--seed", options->compress.seed, "Of parameters that no file has").shows_default();
  verb.callback([options] { run(*options); });
}

}  // namespace plimsoll::cli
