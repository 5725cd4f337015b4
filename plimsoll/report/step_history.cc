#include "plimsoll/report/step_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "plimsoll/plan/cost.h"
#include "plimsoll/program/op.h"
#include "plimsoll/report/module_table.h"

namespace plimsoll::report {
namespace {

using plan::Liveness;
using plan::Storage;
using program::Program;

// Storages with the time in which they alone have their bytes: one that is made in place of another ends that.
std::vector<Storage> exclusive_storages(const Liveness& liveness) {
  std::vector<Storage> storages = liveness.storages;
  std::stable_sort(storages.begin(), storages.end(), [](const Storage& a, const Storage& b) {
    return a.buffer != b.buffer ? a.buffer < b.buffer : a.first < b.first;
  });
  for (size_t i = 0; i + 1 < storages.size(); ++i) {
    if (storages[i].buffer == storages[i + 1].buffer) {
      storages[i].end = std::min(storages[i].end, storages[i + 1].first);
    }
  }
  return storages;
}

Category category_of(const Program& program, const Storage& storage) {
  return storage.owner ? program[storage.owner].category : Category::scratch;
}

uint32_t label_of(PageLabels& labels, std::string_view module, const std::string& name) {
  std::vector<uint32_t> path;
  for (size_t dot = module.find('.'); !module.empty(); dot = module.find('.', dot + 1)) {
    path.push_back(labels.frame(std::string(module.substr(0, dot)), FrameKind::own));
    if (dot == module.npos) break;
  }
  path.push_back(labels.frame(name, FrameKind::own));
  return labels.label(path.back(), path);
}

uint32_t label_of(PageLabels& labels, const program::ValueInfo& value) {
  return label_of(labels, module_of(value.name), fmt::format("{} {}", value.name, value.type.text()));
}

uint32_t label_of(PageLabels& labels, const Program& program, const Storage& storage) {
  if (storage.owner) return label_of(labels, program[storage.owner]);
  const auto op = static_cast<size_t>(storage.first);
  const std::string& output = program[program.ops[op].outputs[0]].name;
  return label_of(labels, module_of(output), "scratch of " + op_text(program, op));
}

class TimelineMaker {
 public:
  TimelineMaker(PageLabels& labels, const StepHistory& history) : labels_(labels), history_(history) {
    made_.unit = "op";
  }

  PageTimeline make() {
    for (const StepPart& part : history_) add(part);
    const bool timed =
        std::all_of(history_.begin(), history_.end(), [](const StepPart& part) { return !part.seconds.empty(); });
    timed ? made_.seconds.push_back(static_cast<float>(now_)) : made_.seconds.clear();
    made_.ranges.push_back({0, arena_bytes_, 0, made_.positions});
    return std::move(made_);
  }

 private:
  void add(const StepPart& part) {
    const int32_t first = made_.positions;
    const Program& program = part.program;
    for (size_t op = 0; op < program.ops.size(); ++op) {
      made_.ops.push_back(op_text(program, op));
      made_.seconds.push_back(static_cast<float>(now_));
      if (!part.seconds.empty()) now_ += part.seconds[op];
    }
    add_phases(part, first);
    add_edges(program, first);
    for (const Storage& storage : exclusive_storages(part.memory.liveness)) {
      if (storage.bytes == 0 || storage.end <= storage.first) continue;
      made_.blocks.push_back({storage.bytes, first + storage.first, first + storage.end,
                              label_of(labels_, program, storage), static_cast<uint8_t>(category_of(program, storage)),
                              0, part.memory.placement.offsets[static_cast<size_t>(storage.buffer)]});
    }
    made_.positions += static_cast<int32_t>(program.ops.size());
    arena_bytes_ = std::max(arena_bytes_, part.memory.placement.arena_bytes);
  }

  void add_edges(const Program& program, int32_t first) {
    const std::vector<int32_t> makers = program::producers(program);
    for (size_t op = 0; op < program.ops.size(); ++op) {
      std::set<int32_t> seen;
      for (const program::Value input : program.ops[op].inputs) {
        if (!input || !seen.insert(input.index).second) continue;
        const program::ValueInfo& value = program[input];
        const int32_t made_by = makers[static_cast<size_t>(input.index)];
        made_.edges.push_back({made_by < 0 ? -1 : first + made_by, first + static_cast<int32_t>(op),
                               value.type.spec().bytes(), label_of(labels_, value)});
      }
    }
  }

  // Where each phase begins. Updates that run as soon as a gradient is there are part of the backward pass.
  void add_phases(const StepPart& part, int32_t first) {
    using program::Phase;
    const Program& program = part.program;
    std::string before = history_.size() == 1 ? ""
                         : part.times > 1     ? fmt::format("{} × {}: ", part.times, part.name)
                                              : part.name + ": ";
    const auto is = [](Phase phase) { return [phase](const program::Op& op) { return op.phase == phase; }; };
    const auto last_backward = std::find_if(program.ops.rbegin(), program.ops.rend(), is(Phase::backward)).base();
    auto from = program.ops.begin();
    for (const Phase phase : {Phase::forward, Phase::backward, Phase::update}) {
      if (phase == Phase::update) from = std::max(from, last_backward);
      const auto found = std::find_if(from, program.ops.end(), is(phase));
      if (found == program.ops.end()) continue;
      const auto at = first + static_cast<int32_t>(found - program.ops.begin());
      made_.marks.push_back({"phase", at, before + std::string(program::name(phase))});
      before.clear();
      from = found;
    }
  }

  PageLabels& labels_;
  const StepHistory& history_;
  PageTimeline made_;
  double now_ = 0;
  int64_t arena_bytes_ = 0;
};

// The programs of a step that is taken in parts: the part, the last part where its size differs, and the update.
std::string part_name(const plan::StepPlan& step, size_t program) {
  if (step.programs.size() == 1) return "step";
  if (program + 1 == step.programs.size()) return "update";
  const int64_t samples = program == 0 ? step.sizes.front() : step.sizes.back();
  return fmt::format("micro-batch of {}", samples);
}

}  // namespace

double StepPart::all_seconds() const {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) * static_cast<double>(times);
}

std::string op_text(const Program& program, size_t op) {
  const program::Op& described = program.ops[op];
  return fmt::format("{} %{}", described.def->name, program[described.outputs[0]].name);
}

StepHistory history_of(kernels::Lowered lowered, std::vector<double> seconds) {
  plan::MemoryPlan memory = plan::plan_memory(lowered);
  return {{"step", std::move(lowered.program), std::move(memory), std::move(seconds)}};
}

StepHistory history_of(const Program& program) {
  plan::MemoryPlan memory;
  memory.liveness = plan::find_liveness(program);
  memory.placement = plan::place(memory.liveness);
  return {{"step", program, std::move(memory)}};
}

StepHistory history_of(const plan::StepPlan& step, const std::function<plan::Costs(const kernels::Lowered&)>& costs) {
  StepHistory history;
  for (size_t i = 0; i < step.programs.size(); ++i) {
    plan::Applied applied = plan::apply(step.programs[i].plan, step.programs[i].lowered);
    std::vector<double> seconds = costs ? costs(applied.lowered).seconds : plan::roofline_seconds(applied.lowered);
    history.push_back({part_name(step, i), std::move(applied.lowered.program), std::move(applied.memory),
                       std::move(seconds), step.runs(i)});
  }
  return history;
}

StepHistory history_of(const plan::StepPlan& step, run::Session& session) {
  StepHistory history;
  for (size_t i = 0; i < session.executors(); ++i) {
    const run::Executor& executor = session.executor(i);
    history.push_back({part_name(step, i), executor.program(), executor.memory(), executor.op_seconds(), step.runs(i)});
  }
  return history;
}

std::vector<std::array<int64_t, kAllCategories.size()>> live_by_category(const StepPart& part) {
  std::vector<std::array<int64_t, kAllCategories.size()>> live(part.program.ops.size() + 1);
  for (const Storage& storage : exclusive_storages(part.memory.liveness)) {
    if (storage.end <= storage.first) continue;
    const auto category = static_cast<size_t>(category_of(part.program, storage));
    live[static_cast<size_t>(storage.first)][category] += storage.bytes;
    live[std::min(live.size() - 1, static_cast<size_t>(storage.end))][category] -= storage.bytes;
  }
  for (size_t op = 1; op < live.size(); ++op) {
    for (size_t i = 0; i < live[op].size(); ++i) live[op][i] += live[op - 1][i];
  }
  live.pop_back();
  return live;
}

int64_t live_peak_bytes(const StepHistory& history) {
  int64_t peak = 0;
  for (const StepPart& part : history) {
    for (const int64_t bytes : plan::live_bytes(part.memory.liveness)) peak = std::max(peak, bytes);
  }
  return peak;
}

uint32_t add_timeline(Page& page, PageLabels& labels, const StepHistory& history, const std::string& name) {
  PageTimeline timeline = TimelineMaker(labels, history).make();
  timeline.name = name;
  page.timelines.push_back(std::move(timeline));
  return static_cast<uint32_t>(page.timelines.size() - 1);
}

}  // namespace plimsoll::report
