#include "plimsoll/plan/plan_steps.h"

#include <algorithm>

#include "plimsoll/base/bytes.h"

namespace plimsoll::plan {
namespace {

constexpr int64_t kFileAlignment = 4096;

size_t at(int32_t place) { return static_cast<size_t>(place); }

class StepMaker {
 public:
  StepMaker(const program::Program& program, const StepGraph& graph, const Schedule& schedule)
      : program_(program), graph_(graph), schedule_(schedule), places_(schedule.steps.size() + 1) {}

  std::vector<Step> make() && {
    place_in_file();
    const auto ends = static_cast<int32_t>(schedule_.steps.size());
    for (int32_t i = 0; i <= ends; ++i) {
      add_copies(i, false);
      places_[at(i)].after_spills = next();
      add_copies(i, true);
      places_[at(i)].step = next();
      if (i < ends) add_step(schedule_.steps[at(i)]);
    }
    for (const Instance& instance : schedule_.instances) {
      if (!instance.fetched) steps_[at(places_[at(instance.first)].step)].writes.push_back({owner(instance), 0});
    }
    for (const auto& [step, copy] : copies_) steps_[at(step)].finish_before = finish_of(*copy);
    return std::move(steps_);
  }

 private:
  // Of the plan's steps: the first behind the spills that start before a step of the schedule, and that step itself.
  struct Places {
    int32_t after_spills = 0;
    int32_t step = 0;
  };

  int32_t next() const { return static_cast<int32_t>(steps_.size()); }
  program::Value owner(const Instance& instance) const { return graph_.storages[at(instance.storage)].owner; }
  const Instance& instance_of(const ScheduledCopy& copy) const { return schedule_.instances[at(copy.instance)]; }
  int32_t finish_of(const ScheduledCopy& copy) const {
    const Places& places = places_[at(copy.finish)];
    return copy.fetches ? places.step : places.after_spills;
  }

  void place_in_file() {
    offsets_.resize(graph_.storages.size(), 0);
    int64_t end = 0;
    for (const ScheduledCopy& copy : schedule_.copies) {
      if (copy.fetches) continue;
      offsets_[at(instance_of(copy).storage)] = end;
      end += align_up(program_[owner(instance_of(copy))].type.spec().bytes(), kFileAlignment);
    }
  }

  void add_step(const ScheduledStep& step) {
    steps_.push_back({step.again ? StepKind::recompute : StepKind::run, graph_.nodes[at(step.node)].op});
  }

  void add_copies(int32_t before, bool fetches) {
    for (const ScheduledCopy& copy : schedule_.copies) {
      if (copy.start != before || copy.fetches != fetches) continue;
      copies_.emplace_back(next(), &copy);
      Step step;
      step.kind = fetches ? StepKind::fetch : StepKind::spill;
      step.copied = owner(instance_of(copy));
      step.file_offset = offsets_[at(instance_of(copy).storage)];
      if (fetches) step.writes = {{step.copied, 0}};
      steps_.push_back(std::move(step));
    }
  }

  const program::Program& program_;
  const StepGraph& graph_;
  const Schedule& schedule_;
  std::vector<Places> places_;    // of each step of the schedule, and the end
  std::vector<int64_t> offsets_;  // by storage
  std::vector<Step> steps_;
  std::vector<std::pair<int32_t, const ScheduledCopy*>> copies_;  // with their places among the steps
};

}  // namespace

std::vector<Step> plan_steps(const program::Program& program, const StepGraph& graph, const Schedule& schedule) {
  return StepMaker(program, graph, schedule).make();
}

int64_t file_bytes(const program::Program& program, const std::vector<Step>& steps) {
  int64_t bytes = 0;
  for (const Step& step : steps) {
    if (step.is_copy()) bytes = std::max(bytes, step.file_offset + program[step.copied].type.spec().bytes());
  }
  return bytes;
}

}  // namespace plimsoll::plan
