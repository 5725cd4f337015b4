#include "plimsoll/plan/estimate.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/model_options.h"
#include "cli/page_options.h"
#include "cli/script_estimate.h"
#include "cli/verbs.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/device/device.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/models/step.h"
#include "plimsoll/report/chrome_trace.h"
#include "plimsoll/report/dot.h"
#include "plimsoll/report/module_table.h"
#include "plimsoll/report/plot.h"
#include "plimsoll/report/step_page.h"
#include "plimsoll/train/choose_sharding.h"
#include "plimsoll/train/model_forms.h"

namespace plimsoll::cli {
namespace {

using program::Program;

constexpr int kPlotColumns = 60;
constexpr int kPlotRows = 6;

// Weights that are held twice, for a step that computes in lower precision than it updates.
struct Masters {
  int64_t master_bytes = 0;
  int64_t copy_bytes = 0;
};

Masters find_masters(const Program& program, DType precision) {
  Masters found;
  for (const program::Op& op : program.ops) {
    const program::Value made = op.outputs[0];
    const bool is_copy = op.phase == program::Phase::forward && program[made].category == Category::parameter &&
                         program[made].type.dtype == precision && program[op.inputs[0]].type.dtype != precision;
    if (!is_copy) continue;
    found.master_bytes += program[op.inputs[0]].type.spec().bytes();
    found.copy_bytes += program[made].type.spec().bytes();
  }
  return found;
}

struct KernelEstimate {
  plan::Estimate estimate;
  std::string without_scratch;  // why the scratch of kernels is not in it; empty when it is
};

// With the scratch of the device's kernels, where it has them all.
KernelEstimate estimate_on(std::string_view device, const Program& program, int threads) {
  if (device == "none") return {plan::estimate(program), "tensors alone, as --device none asks"};
  device::find_device(device);
  try {
    return {plan::estimate(kernels::prepare(program, {.device = std::string(device), .threads = threads})), ""};
  } catch (const UnsupportedError& error) {
    return {plan::estimate(program), fmt::format("{} has no kernels for all of it: {}", device, error.what())};
  }
}

// One run of the verb: what was asked, and what was found.
struct Report {
  const models::ModelInfo& model;
  models::StepOptions asked;
  program::Bindings sizes;
  size_t ops;
  Masters masters;
  std::string without_scratch;
  plan::Estimate estimate;
  std::vector<train::RankEstimate> ranks = {};  // empty: one alone
};

nlohmann::ordered_json category_json(const plan::CategoryBytes& bytes) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const Category category : kAllCategories) {
    json[fmt::format("{}_bytes", name(category))] = bytes[static_cast<size_t>(category)];
  }
  return json;
}

nlohmann::ordered_json largest_json(const std::vector<plan::LiveTensor>& tensors) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const plan::LiveTensor& tensor : tensors) {
    json.push_back({{"name", tensor.name},
                    {"category", name(tensor.category)},
                    {"dtype", name(tensor.spec.dtype)},
                    {"shape", tensor.spec.shape.dims()},
                    {"bytes", tensor.bytes}});
  }
  return json;
}

nlohmann::ordered_json ranks_json(const std::vector<train::RankEstimate>& estimates) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const train::RankEstimate& one : estimates) {
    json.push_back({{"ranks", one.ranks},
                    {"samples", one.samples},
                    {"arena_bytes", one.arena_bytes},
                    {"optimizer_state_bytes", one.state_bytes},
                    {"sent_bytes", one.sent_bytes},
                    {"compute_s", one.compute_s},
                    {"communication_s", one.communication_s},
                    {"waited_s", one.waited_s},
                    {"step_s", one.step_s()}});
  }
  return json;
}

void print_json(const Report& report) {
  const plan::Estimate& estimate = report.estimate;
  nlohmann::ordered_json json = {{"model", report.model.name},
                                 {"sizes", report.sizes},
                                 {"mode", report.asked.training ? "train" : "infer"},
                                 {"precision", name(report.asked.precision)}};
  if (report.asked.training) {
    json["optimizer"] = name(report.asked.train.optimizer);
    json["eight_bit_state"] = report.asked.train.eight_bit_state;
  }
  json["ops"] = report.ops;
  json["with_scratch"] = report.without_scratch.empty();
  json["peak_bytes"] = estimate.peak_bytes;
  json["live_peak_bytes"] = estimate.live_peak_bytes;
  json["optimal"] = estimate.optimal;
  json["peak_at"] = {
      {"op", estimate.peak_at.op}, {"phase", name(estimate.peak_at.phase)}, {"what", estimate.peak_at.what}};
  json["at_peak"] = category_json(estimate.at_peak);
  json["total"] = category_json(estimate.total);
  json["master_weight_bytes"] = report.masters.master_bytes;
  json["weight_copy_bytes"] = report.masters.copy_bytes;
  json["largest"] = largest_json(estimate.largest);
  json["live_bytes"] = estimate.live_bytes;
  if (!report.ranks.empty()) json["shard"] = name(report.asked.train.sharding);
  if (!report.ranks.empty()) json["by_ranks"] = ranks_json(report.ranks);
  cli::print_json(json);
}

std::string sizes_text(const program::Bindings& sizes) {
  std::string text;
  for (const auto& [symbol, size] : sizes) text += fmt::format(", {} {}", symbol, size);
  return text;
}

std::string title_of(const Report& report) {
  const program::TrainOptions& train = report.asked.train;
  const std::string mode = report.asked.training ? fmt::format("training with {}{}", name(train.optimizer),
                                                               train.eight_bit_state ? " in 8 bits" : "")
                                                 : std::string("inference");
  return fmt::format("{}{}, {}, {}", report.model.name, sizes_text(report.sizes), name(report.asked.precision), mode);
}

void print_head(const Report& report) {
  print("{}: {} ops\n", title_of(report), report.ops);
  if (!report.without_scratch.empty()) {
    print("  without the scratch of kernels: {}\n", report.without_scratch);
  }
  print("  in Plimsoll's own executor; PyTorch's peaks are about 1.6 to 2 times as large\n");
  if (report.masters.copy_bytes > 0) {
    print("  weights are kept in f32 for the update ({}) and copied to {} in the step ({})\n",
          format_bytes(report.masters.master_bytes), name(report.asked.precision),
          format_bytes(report.masters.copy_bytes));
  }
}

void print_peak(const plan::Estimate& estimate, size_t ops) {
  const auto line = [](std::string_view what, int64_t bytes, std::string_view note) {
    print("  {:<5} {:>12}  {:>19} bytes  {}\n", what, format_bytes(bytes), format_count(bytes), note);
  };
  line("peak", estimate.peak_bytes,
       estimate.optimal ? "the arena that holds the step; none smaller would" : "the arena that holds the step");
  line("live", estimate.live_peak_bytes, "alive at its peak, without padding and gaps");
  print("  at    op {} (of 0 to {}), {}: {}\n", estimate.peak_at.op, ops - 1, name(estimate.peak_at.phase),
        estimate.peak_at.what);
}

void print_categories(const plan::Estimate& estimate) {
  print("\n  {:<16} {:>20}  {:>28}\n", "bytes of", "at the peak", "of all tensors of the step");
  const auto line = [](std::string_view what, int64_t at_peak, int64_t total) {
    print("  {:<16} {:>20}  {:>28}\n", what, format_count(at_peak), format_count(total));
  };
  int64_t at_peak = 0;
  int64_t total = 0;
  for (const Category category : kAllCategories) {
    const auto i = static_cast<size_t>(category);
    if (estimate.total[i] == 0) continue;
    line(name(category), estimate.at_peak[i], estimate.total[i]);
    at_peak += estimate.at_peak[i];
    total += estimate.total[i];
  }
  line("together", at_peak, total);
}

void print_largest(const plan::Estimate& estimate) {
  print("\n  largest tensors alive at the peak\n");
  for (const plan::LiveTensor& tensor : estimate.largest) {
    print("  {:>11}  {:<15}  {:<22}  {}\n", format_bytes(tensor.bytes), name(tensor.category), tensor.spec.text(),
          tensor.name);
  }
}

// "|forward    |backward": each phase where it begins, unless another's name stands there.
std::string phase_axis(const plan::Estimate& estimate) {
  std::string axis(kPlotColumns, ' ');
  for (const program::Phase phase : {program::Phase::forward, program::Phase::backward, program::Phase::update}) {
    const auto first = std::find(estimate.phases.begin(), estimate.phases.end(), phase);
    if (first == estimate.phases.end()) continue;
    const auto time = static_cast<size_t>(first - estimate.phases.begin());
    const auto column = static_cast<size_t>(report::column_of(time, estimate.phases.size(), kPlotColumns));
    const std::string label = fmt::format("|{}", name(phase));
    const bool is_free = axis.find_first_not_of(' ', column) == axis.npos;
    if (is_free && column + label.size() <= axis.size()) axis.replace(column, label.size(), label);
  }
  return axis.substr(0, axis.find_last_not_of(' ') + 1);
}

void print_plot(const plan::Estimate& estimate) {
  print("\n  live bytes from op to op\n");
  const std::vector<std::string> lines = report::plot(estimate.live_bytes, kPlotColumns, kPlotRows);
  for (size_t i = 0; i < lines.size(); ++i) {
    print("  {:>10} {}\n",
          i == 0                  ? format_bytes(estimate.live_peak_bytes)
          : i + 1 == lines.size() ? "0"
                                  : "",
          lines[i]);
  }
  const int column =
      report::column_of(static_cast<size_t>(estimate.peak_at.op), estimate.live_bytes.size(), kPlotColumns);
  print("  {:>10} {}\n", "", phase_axis(estimate));
  print("  {:>10} {:>{}}\n", "", "^ peak", column + 6);
}

struct EstimateOptions {
  ModelOptions step;
  ScriptOptions script;
  PageOptions page;
  std::vector<std::string> allow;
  std::string dot;  // a file
  std::string by;   // "module": a table of these
  int64_t depth = 3;
  train::RankOptions ranks;
  std::string budget;  // of each rank, for --shard auto; empty: as much as it takes
};

train::StepRequest request_of_batch(const EstimateOptions& given, const models::ModelInfo& model,
                                    const models::StepOptions& asked) {
  return {.model = model, .step = asked, .device = given.step.device, .threads = given.step.threads};
}

// With a sharding in place of `auto`.
train::RankOptions with_sharding(const EstimateOptions& given, const train::StepRequest& whole) {
  train::RankOptions ranks = given.ranks;
  if (ranks.shard != train::kAutoSharding) return ranks;
  const int64_t budget = given.budget.empty() ? INT64_MAX : parse_bytes(given.budget);
  ranks.shard = name(train::estimate_sharding(whole, ranks.ranks, train::parse_link(ranks.link), budget));
  return ranks;
}

// What is allowed is done here: there is no budget that could do without.
models::StepOptions asked_of(const EstimateOptions& options) {
  const train::Allowed allowed = train::parse_allowed(options.allow);
  if (allowed.batch_norm_micro_batches) {
    throw ArgumentError(fmt::format("--allow {} is for micro-batches, and this is the whole batch: expected {}",
                                    train::kBatchNormMicroBatches, train::kEightBitState));
  }
  models::StepOptions asked = step_options(options.step);
  asked.train.eight_bit_state = allowed.eight_bit_state;
  return asked;
}

// The step with its times, where the device has kernels for it.
report::StepHistory history_of(const EstimateOptions& given, const Report& report) {
  const Program program = models::build_step(report.model, report.asked);
  if (!report.without_scratch.empty()) return report::history_of(program);
  kernels::Lowered lowered = kernels::prepare(program, {.device = given.step.device, .threads = given.step.threads});
  std::vector<double> seconds = train::KnownCosts().of(lowered).seconds;
  return report::history_of(std::move(lowered), std::move(seconds));
}

void write_files(const EstimateOptions& given, const Report& report) {
  if (!given.page.wants_any()) return;
  const report::StepHistory history = history_of(given, report);
  if (!given.page.chrome_trace.empty()) {
    write_file(given.page.chrome_trace, report::chrome_trace(history, title_of(report)));
  }
  write_page(given.page, [&] {
    const bool is_card = given.step.device.starts_with("cuda");
    const Budget memory = is_card ? device::find_device(given.step.device).budget() : machine_budget();
    const bool with_kernels = report.without_scratch.empty();
    return report::estimate_page(
        {.title = title_of(report),
         .request = {.model = report.model,
                     .step = report.asked,
                     .allow = given.allow,
                     .device = with_kernels ? given.step.device : "cpu",
                     .threads = given.step.threads},
         .with_kernels = with_kernels,
         .limit = report::PageFigure{is_card ? given.step.device : "this machine", memory.bytes, memory.source}},
        history);
  });
}

// Options of other forms of the verb would do nothing in silence.
void require_model_options(const EstimateOptions& given) {
  const ScriptOptions script;
  if (given.script.gpu != script.gpu || given.script.steps != script.steps || given.script.fake_data) {
    throw ArgumentError(
        "--gpu, --steps and --fake-data are for a script, whose command stands after --; a model's card is --device "
        "cuda:h200");
  }
  if (!given.budget.empty() && given.ranks.shard != train::kAutoSharding) {
    throw ArgumentError(fmt::format(
        "--budget is of each rank, for --shard auto; `plimsoll plan {} --budget {}` makes a step fit into one",
        given.step.model, given.budget));
  }
  if (!given.by.empty() && (given.page.wants_any() || !given.dot.empty() || given.ranks.ranks > 1)) {
    throw ArgumentError("--by module prints a table: leave --html, --open, --chrome-trace, --dot and --ranks out");
  }
}

void run(const EstimateOptions& given) {
  require_page(given.page);
  const ModelOptions& options = given.step;
  const models::ModelInfo model = find_model(options);
  models::StepOptions asked = asked_of(given);
  std::vector<train::RankEstimate> ranks;
  train::RankOptions by_rank;
  if (given.ranks.ranks > 1) {
    train::StepRequest whole = request_of_batch(given, model, asked);
    train::set_bucket(whole, given.ranks.bucket);
    by_rank = with_sharding(given, whole);
    ranks = train::estimate_ranks(whole, by_rank);
    asked = train::request_of_ranks(whole, by_rank.ranks, train::parse_sharding(by_rank.shard)).step;
  }
  const Program program = models::build_step(model, asked);
  tell_notes(model, asked);
  const KernelEstimate estimate = estimate_on(options.device, program, options.threads);
  const Report report{model,
                      asked,
                      models::bindings(model, asked.sizes),
                      program.ops.size(),
                      find_masters(program, asked.precision),
                      estimate.without_scratch,
                      estimate.estimate,
                      ranks};
  write_files(given, report);
  if (!given.dot.empty()) write_file(given.dot, report::dot_graph(program, title_of(report)));
  if (options.json) return print_json(report);
  print_head(report);
  print_peak(report.estimate, report.ops);
  print_categories(report.estimate);
  print_largest(report.estimate);
  print_plot(report.estimate);
  if (!ranks.empty()) {
    print("{}", train::ranks_text(ranks, train::parse_link(by_rank.link), train::parse_sharding(by_rank.shard)));
  }
}

void run_by_module(const EstimateOptions& given) {
  if (given.by != "module") throw ArgumentError(fmt::format("--by is {}, expected module", quote(given.by)));
  const models::ModelInfo model = find_model(given.step);
  const models::StepOptions asked = asked_of(given);
  const report::ModuleTable table =
      report::module_table(models::build_step(model, asked), static_cast<int>(given.depth));
  if (given.step.json) {
    nlohmann::ordered_json json = {{"model", model.name}, {"sizes", models::bindings(model, asked.sizes)}};
    json.update(report::module_json(table));
    return cli::print_json(json);
  }
  print("{}{}, {}\n{}", model.name, sizes_text(models::bindings(model, asked.sizes)), name(asked.precision),
        report::module_text(table));
}

// The first word after -- was taken for the model.
int run_script(const EstimateOptions& given) {
  if (!given.dot.empty() || !given.by.empty()) throw ArgumentError("--dot and --by are for a model, not for a script");
  ScriptOptions script = given.script;
  script.command.insert(script.command.begin(), given.step.model);
  script.json = given.step.json;
  script.page = given.page;
  return estimate_script(script);
}

}  // namespace

void add_estimate(const Command& app, int& status) {
  const Command verb = app.add_verb("estimate", "Predict the memory of a step before it runs");
  verb.footer(
      "Example: plimsoll estimate resnet50 --batch 64 --optimizer momentum\n"
      "         plimsoll estimate resnet50 --batch 1 --by module --depth 2\n"
      "         plimsoll estimate gpt2 --batch 64 --ranks 8 --shard optimizer --link IB\n"
      "         plimsoll estimate --gpu a100-40g -- python train.py --epochs 1");
  const auto options = std::make_shared<EstimateOptions>();
  ModelOptions& step = options->step;
  add_model_options(verb, step);
  add_optimizer_option(verb, step);
  verb.add_option("--precision", step.precision, "fp32 bf16 fp16 fp64, and i8 to infer").shows_default();
  verb.add_option("--mode", step.mode, "train or infer").shows_default();
  verb.add_option("--allow", options->allow, "8-bit-state: with the optimizer's state in 8 bits");
  verb.add_option("--device", step.device,
                  "cpu, cuda, cuda:N, cuda:h200 ..: with its kernels' scratch; none: tensors alone")
      .shows_default();
  add_rank_options(verb, options->ranks);
  verb.add_option("--budget", options->budget, "Of each rank, for --shard auto: 16GiB");
  add_page_options(verb, options->page);
  verb.add_option("--dot", options->dot, "Write the graph, with bytes on its edges, for Graphviz");
  verb.add_option("--by", options->by, "module: layers with their results, parameters, activations, FLOPs");
  verb.add_option("--depth", options->depth, "Of --by module: modules in modules that are shown")
      .shows_default()
      .in_range(1, 100);
  ScriptOptions& script = options->script;
  verb.add_option("COMMAND", script.command, "After --: a PyTorch script to run on a simulated card instead");
  verb.add_option("--gpu", script.gpu, "For a script: a card like h200, a100-40g or rtx4090, or a size")
      .shows_default();
  verb.add_option("--steps", script.steps, "For a script: optimizer steps; without it, until they repeat")
      .in_range(1, 1e9);
  verb.add_flag("--fake-data", script.fake_data, "For a script: one batch of each data loader, again and again");
  verb.callback([options, &status] {
    if (has_other_command() || !options->script.command.empty()) {
      status = run_script(*options);
      return;
    }
    require_model_options(*options);
    options->by.empty() ? run(*options) : run_by_module(*options);
  });
}

}  // namespace plimsoll::cli
