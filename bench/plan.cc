// What plans cost: time against memory for five models, without and with a disk to spill to and with parts, beside
// checkpointing as it is commonly done, the distance to the exact optimum on small graphs, and how long planning takes.
// Times of ops are measured on this machine, on one thread and in processor time, at a small batch, and scaled to the
// usual one; the curve goes to build/plan.svg, too.
#include "plimsoll/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <string>

#include "bench/exact_plan.h"
#include "bench/small_graphs.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/models/step.h"
#include "plimsoll/plan/bounds.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/plan/measure.h"
#include "plimsoll/plan/micro_batches.h"
#include "plimsoll/plan/search.h"

namespace {

using namespace plimsoll;
using kernels::Lowered;
using plan::Plan;
using plan::Schedule;
using plan::StepGraph;

struct Case {
  std::string_view model;
  program::Bindings sizes = {};
  program::Bindings measured_sizes = {};
};

const std::vector<Case> kCurves = {{"vgg16", {{"batch", 32}}, {{"batch", 2}}},
                                   {"resnet50", {{"batch", 32}}, {{"batch", 4}}},
                                   {"unet", {{"batch", 8}}, {{"batch", 1}}},
                                   {"vit_b_16", {{"batch", 32}}, {{"batch", 2}}},
                                   {"gpt2", {{"batch", 4}}, {{"batch", 1}}}};
constexpr double kFractions[] = {1, 0.75, 0.5, 0.4, 0.33, 0.25, 0.2};
constexpr double kTarget = 0.25;
constexpr double kTargetTime = 1.35;

// Of this thread, so that other work on the machine does not count.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

const kernels::DeviceOptions kOneThread = {.threads = 1};

models::StepOptions options_of(const program::Bindings& sizes) {
  models::StepOptions options;
  options.sizes = sizes;
  options.train.optimizer = program::Optimizer::sgd;
  return options;
}

Lowered prepare(std::string_view model, const program::Bindings& sizes) {
  return kernels::prepare(models::build_step(models::find_model(model), options_of(sizes)), kOneThread);
}

// The step of a model in all its forms.
plan::StepForms forms_of(const Case& wanted, const plan::CostTable& table) {
  plan::StepForms forms{wanted.sizes.at("batch"), [wanted] { return prepare(wanted.model, wanted.sizes); }};
  forms.costs = [&table](const Lowered& lowered) { return plan::costs_of(lowered, table); };
  const models::ModelInfo& model = models::find_model(wanted.model);
  forms.places = models::find_chunk_places(model, options_of(wanted.sizes));
  forms.formed = [&model, wanted](const program::StepForm& form) {
    models::StepOptions options = options_of(wanted.sizes);
    options.form = form;
    return kernels::prepare(models::build_step(model, options), kOneThread);
  };
  try {
    const auto cut = std::make_shared<models::MicroBatchStep>(
        models::build_micro_batch_step(models::find_model(wanted.model), options_of(wanted.sizes)));
    forms.micro_batch = [cut](int64_t size) {
      return kernels::prepare(program::bind(cut->split.micro_batch, {{"batch", size}}), kOneThread);
    };
    forms.update = [cut] { return kernels::prepare(cut->split.update, kOneThread); };
  } catch (const UnsupportedError&) {  // taken whole
  }
  return forms;
}

struct Point {
  double memory = 0;  // of the activation memory of the program as it is
  double time = 0;    // of its time
};

// A model with what is known of its step.
struct Subject {
  plan::CostTable table;
  Lowered lowered;
  std::vector<double> seconds;
  StepGraph graph;
  int64_t unplanned_bytes = 0;
  int64_t other_bytes = 0;  // of them: what comes in or stays, and gradients of parameters
  double unplanned_s = 0;

  int64_t activation_bytes() const { return unplanned_bytes - other_bytes; }
  Point point(int64_t bytes, double time_s) const {
    return {static_cast<double>(bytes - other_bytes) / static_cast<double>(activation_bytes()), time_s / unplanned_s};
  }
  Point point(const plan::Holds& holds) const {
    plan::Scheduler scheduler(graph);
    const Schedule& schedule = scheduler.run(holds);
    return point(schedule.peak_bytes, schedule.seconds);
  }
};

// Of parameters, at the peak of the step as it is.
int64_t gradient_bytes(const Lowered& lowered) {
  return plan::estimate(lowered).at_peak[static_cast<size_t>(Category::gradient)];
}

Subject subject_of(const Case& wanted) {
  Subject subject;
  subject.lowered = prepare(wanted.model, wanted.sizes);
  if (!wanted.measured_sizes.empty()) {
    const plan::MeasureOptions options{.budget = machine_budget(), .time_limit_s = 1e9};
    plan::measure_costs(prepare(wanted.model, wanted.measured_sizes), options, subject.table);
  }
  subject.seconds = plan::costs_of(subject.lowered, subject.table).seconds;
  subject.graph = plan::make_step_graph(subject.lowered, subject.seconds);
  plan::Scheduler scheduler(subject.graph);
  const Schedule& whole = scheduler.run(plan::hold_all(subject.graph));
  subject.unplanned_bytes = whole.peak_bytes;
  subject.other_bytes = subject.graph.resident_bytes + gradient_bytes(subject.lowered);
  subject.unplanned_s = whole.seconds;
  return subject;
}

// "layer1.0" of "layer1.0.conv1.weight", "h.3" of "h.3.attn": up to the first number.
std::string block_of(const std::string& name) {
  const size_t digit = name.find_first_of("0123456789");
  if (digit == name.npos) return "";
  size_t end = name.find('.', digit);
  if (end != name.npos && end + 1 < name.size() && std::isdigit(static_cast<unsigned char>(name[end + 1])) != 0) {
    end = name.find('.', end + 1);
  }
  return name.substr(0, end);
}

std::vector<int32_t> block_cuts(const Subject& subject) {
  std::vector<int32_t> cuts;
  std::string block;
  for (size_t i = 0; i < subject.graph.nodes.size(); ++i) {
    const plan::GraphNode& node = subject.graph.nodes[i];
    if (node.phase == program::Phase::backward) break;
    if (node.phase != program::Phase::forward) continue;
    const program::Op& op = subject.lowered.program.ops[static_cast<size_t>(node.op)];
    const std::string here = block_of(subject.lowered.program[op.outputs[0]].name);
    if (!block.empty() && here != block) cuts.push_back(static_cast<int32_t>(i));
    block = here;
  }
  return cuts;
}

int square_root_segments(const StepGraph& graph) {
  double forward = 0;
  for (const plan::GraphNode& node : graph.nodes) forward += node.phase == program::Phase::forward ? 1 : 0;
  return static_cast<int>(std::lround(std::sqrt(forward)));
}

struct Curve {
  std::string model;
  std::vector<Point> points;
};

// The same batch and the same gradients, in the forms that there are.
std::optional<plan::StepPlan> formed(const plan::StepForms& forms, int64_t budget_bytes) {
  auto made = plan::plan_step(forms, {.budget_bytes = budget_bytes, .find_smallest = false});
  if (auto* step = std::get_if<plan::StepPlan>(&made)) return std::move(*step);
  return std::nullopt;
}

// "+3.1 % in 4 parts"
std::string form_text(const Subject& subject, const std::optional<plan::StepPlan>& step) {
  if (!step) return "refused";
  const double time = (step->predicted_s / subject.unplanned_s - 1) * 100;
  if (step->in_micro_batches()) return fmt::format("{:+.1f} % in {} parts", time, step->sizes.size());
  const program::StepForm& form = step->form;
  if (form.chunks == 1) return fmt::format("{:+.1f} % whole{}", time, form.sink_ops ? ", late" : "");
  return fmt::format("{:+.1f} % in {} slices of {}+{} ops", time, form.chunks, form.first, form.last);
}

// Of the disk that the build is on.
const plan::SpillOptions& disk() {
  static const plan::SpillOptions measured = [] {
    plan::CostTable table;
    return plan::measure_spill(PLIMSOLL_SOURCE_DIR, table);
  }();
  return measured;
}

// The same budget where results may go to a file, too.
std::string with_disk(const Subject& subject, int64_t budget_bytes) {
  plan::PlanOptions options = {.budget_bytes = budget_bytes, .op_seconds = subject.seconds};
  options.spill = disk();
  const auto made = plan::make_plan(subject.lowered, options);
  if (const auto* refusal = std::get_if<plan::Refusal>(&made)) {
    const Point least = subject.point(refusal->smallest_bytes, refusal->smallest_s);
    return fmt::format("refused, the smallest is {:.1f} % at {:+.1f} %", least.memory * 100, (least.time - 1) * 100);
  }
  const auto& planned = std::get<Plan>(made);
  return fmt::format("{:+.1f} %, {} spilled", (planned.predicted_s / planned.unplanned_s - 1) * 100,
                     format_bytes(planned.file_bytes));
}

Curve run_curve(const Case& wanted) {
  const Subject subject = subject_of(wanted);
  const plan::StepForms forms = forms_of(wanted, subject.table);
  fmt::print("{} ({}): {} unplanned, {} of it activations and scratch, {:.2f} s a step\n", wanted.model,
             wanted.sizes.begin()->second, format_bytes(subject.unplanned_bytes),
             format_bytes(subject.activation_bytes()), subject.unplanned_s);
  Curve curve{std::string(wanted.model), {}};
  plan::StepForms no_micro_batches = forms;
  no_micro_batches.micro_batch = {};
  for (const double fraction : kFractions) {
    const auto part = static_cast<int64_t>(static_cast<double>(subject.activation_bytes()) * fraction);
    const int64_t budget = subject.other_bytes + part;
    const double start = cpu_seconds();
    const auto made = plan::make_plan(subject.lowered, {.budget_bytes = budget, .op_seconds = subject.seconds});
    const double took = cpu_seconds() - start;
    const std::optional<plan::StepPlan> any = formed(forms, budget);
    const std::string parts = fmt::format(
        "no parts {}; any form {}", form_text(subject, formed(no_micro_batches, budget)), form_text(subject, any));
    if (const auto* refusal = std::get_if<plan::Refusal>(&made)) {
      const Point least = subject.point(refusal->smallest_bytes, refusal->smallest_s);
      const double bound = subject.point(refusal->bound_bytes, 1).memory;
      fmt::print(
          "  {:>5.0f} %  refused: the smallest is {:.1f} % at {:+.1f} % time; one op alone needs {:.1f} %; {}; with a "
          "disk "
          "{}\n",
          fraction * 100, least.memory * 100, (least.time - 1) * 100, bound * 100, parts, with_disk(subject, budget));
      if (any) curve.points.push_back(subject.point(any->arena_bytes, any->predicted_s));
      continue;
    }
    const auto& planned = std::get<Plan>(made);
    const Point point = subject.point(planned.arena_bytes, planned.predicted_s);
    const char* verdict = fraction != kTarget         ? ""
                          : point.time <= kTargetTime ? "  (target 35 %: held)"
                                                      : "  (target 35 %: MISSED)";
    fmt::print("  {:>5.0f} %  {:+6.1f} % time, bound {:+5.1f} %, planned in {:.2f} s{}; {}; with a disk {}\n",
               fraction * 100, (point.time - 1) * 100, (planned.bound_s / planned.unplanned_s - 1) * 100, took, verdict,
               parts, with_disk(subject, budget));
    curve.points.push_back(point);
  }
  const Point root = subject.point(plan::checkpoints(subject.graph, square_root_segments(subject.graph)));
  const Point blocks = subject.point(plan::checkpoints_at(subject.graph, block_cuts(subject)));
  fmt::print("  checkpoints: sqrt(n) segments {:.0f} % at {:+.1f} % time; per block {:.0f} % at {:+.1f} % time\n\n",
             root.memory * 100, (root.time - 1) * 100, blocks.memory * 100, (blocks.time - 1) * 100);
  return curve;
}

// A line for each model, memory from left to right, time upwards from 1: by recompute alone, and where that is refused
// in any form.
void write_svg(const std::vector<Curve>& curves) {
  constexpr const char* kColours[] = {"#1b6ca8", "#c0392b", "#27874f", "#8e44ad", "#b9770e"};
  const auto x = [](double memory) { return 60 + memory * 560; };
  const auto y = [](double time) { return 360 - (time - 1) * 700; };
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"680\" height=\"420\" font-family=\"sans-serif\">\n";
  for (int percent = 0; percent <= 40; percent += 10) {
    svg += fmt::format(
        "<line x1=\"60\" x2=\"620\" y1=\"{0}\" y2=\"{0}\" stroke=\"#ddd\"/><text x=\"8\" y=\"{0}\">+{1} %</text>\n",
        y(1 + percent / 100.0), percent);
  }
  for (int percent = 25; percent <= 100; percent += 25) {
    svg += fmt::format("<text x=\"{}\" y=\"385\">{} %</text>\n", x(percent / 100.0), percent);
  }
  svg += "<text x=\"220\" y=\"410\">activation memory, of the unplanned</text>\n";
  for (size_t i = 0; i < curves.size(); ++i) {
    std::string points;
    for (const Point& point : curves[i].points) points += fmt::format("{:.1f},{:.1f} ", x(point.memory), y(point.time));
    svg += fmt::format(
        "<polyline fill=\"none\" stroke=\"{0}\" stroke-width=\"2\" points=\"{1}\"/>\n"
        "<text x=\"540\" y=\"{2}\" fill=\"{0}\">{3}</text>\n",
        kColours[i % 5], points, 30 + 18 * static_cast<int>(i), curves[i].model);
  }
  const std::string path = PLIMSOLL_SOURCE_DIR "/build/plan.svg";
  write_file(path, svg + "</svg>\n");
  fmt::print("the curves are drawn in {}\n\n", path);
}

struct Gaps {
  int solved = 0;
  int missed = 0;   // a plan exists, and the search found none
  int gave_up = 0;  // the exact search
  double sum = 0;
  double worst = 0;
};

void compare(const StepGraph& graph, int64_t limit_bytes, Gaps& gaps) {
  bool gave_up = false;
  const auto exact = bench::ExactPlan(graph, limit_bytes).seconds(200'000, gave_up);
  gaps.gave_up += gave_up ? 1 : 0;
  if (!exact) return;
  plan::Search search(graph, plan::Search::Clock::now() + std::chrono::hours(1));
  auto found = search.construct(limit_bytes);
  if (!found) {
    ++gaps.missed;
    return;
  }
  const double gap =
      search.improve(std::move(*found), limit_bytes, 8000 * static_cast<int64_t>(graph.nodes.size())).seconds / *exact -
      1;
  ++gaps.solved;
  gaps.sum += gap;
  gaps.worst = std::max(gaps.worst, gap);
}

void run_exact() {
  std::mt19937 random(1);
  std::map<std::string, Gaps> by_kind;
  for (int i = 0; i < 6; ++i) {
    for (const std::string kind : {"chain", "residual", "dense", "unet", "random"}) {
      const bench::SmallGraph small = kind == "random"
                                          ? bench::random_graph(18 + static_cast<int>(random() % 8), random)
                                          : bench::training_graph(kind, 9 + static_cast<int>(random() % 5), random);
      plan::Scheduler scheduler(small.graph);
      const int64_t most = scheduler.run(plan::hold_all(small.graph)).peak_bytes;
      const int64_t least = plan::least_bytes(small.graph).bytes;
      for (const double part : {0.8, 0.5, 0.3, 0.15, 0.05}) {
        const auto limit = least + static_cast<int64_t>(static_cast<double>(most - least) * part) / 64 * 64;
        if (limit < most) compare(small.graph, limit, by_kind[kind]);
      }
    }
  }
  fmt::print("against the exact optimum, graphs of up to 25 ops (target: mean 3 %, worst 10 %)\n");
  fmt::print("  {:<10} {:>7} {:>9} {:>9} {:>9} {:>24}\n", "shape", "solved", "mean gap", "worst", "missed",
             "exact search gave up");
  for (const auto& [kind, gaps] : by_kind) {
    fmt::print("  {:<10} {:>7} {:>7.2f} % {:>7.1f} % {:>9} {:>24}\n", kind, gaps.solved,
               gaps.solved == 0 ? 0 : 100 * gaps.sum / gaps.solved, 100 * gaps.worst, gaps.missed, gaps.gave_up);
  }
}

void run_planning_times() {
  fmt::print("\nplanning to half the activation memory (processor time)\n");
  const std::pair<Case, double> cases[] = {{{"resnet50"}, 1}, {{"gpt2"}, 1}, {{"densenet121"}, 5}, {{"gpt2-xl"}, 5}};
  for (const auto& [wanted, limit_s] : cases) {
    const Subject subject = subject_of(wanted);
    const double start = cpu_seconds();
    const auto made = plan::make_plan(
        subject.lowered,
        {.budget_bytes = subject.other_bytes + subject.activation_bytes() / 2, .op_seconds = subject.seconds});
    const double took = cpu_seconds() - start;
    fmt::print("  {:<12} {:>5} ops  {:.2f} s (target {} s){}\n", wanted.model, subject.lowered.ops.size(), took,
               limit_s, std::holds_alternative<Plan>(made) && took <= limit_s ? "" : "  MISSED");
  }
}

}  // namespace

// Names of models: only their curves.
int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what is known is shown, also into a file
  const std::vector<std::string_view> wanted(argv + 1, argv + argc);
  std::vector<Curve> curves;
  fmt::print("the disk moves {} a second\n\n", format_bytes(static_cast<int64_t>(disk().bytes_per_s)));
  for (const Case& one : kCurves) {
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), one.model) != wanted.end()) {
      curves.push_back(run_curve(one));
    }
  }
  if (!wanted.empty()) return 0;
  write_svg(curves);
  run_exact();
  run_planning_times();
}
