#include "plimsoll/report/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/duration.h"
#include "plimsoll/report/chrome_trace.h"
#include "plimsoll/report/module_table.h"
#include "plimsoll/report/rank_waits.h"
#include "plimsoll/report/trained_steps.h"
#include "plimsoll/train/known_costs.h"

namespace plimsoll::report {
namespace {

constexpr size_t kShownRows = 12;
constexpr size_t kMedianSteps = 32;

// Ops take microseconds.
std::string time_text(double seconds) {
  return seconds < 1e-3 ? fmt::format("{:.0f} us", seconds * 1e6) : format_seconds(seconds);
}

bool is_timed(run::Session& session) { return !session.executor().op_seconds().empty(); }

// Bytes that each op of a part produces, its scratch included.
std::vector<int64_t> produced_bytes(const StepPart& part) {
  std::vector<int64_t> bytes(part.program.ops.size());
  const std::vector<int32_t> makers = program::producers(part.program);
  for (const plan::Storage& storage : part.memory.liveness.storages) {
    const int32_t op = storage.owner ? makers[static_cast<size_t>(storage.owner.index)] : storage.first;
    if (op >= 0) bytes[static_cast<size_t>(op)] += storage.bytes;
  }
  return bytes;
}

// "layer1.0.conv1", or the name of its result where it is of no module. Updates are of the parameter that they write.
std::string module_of_op(const program::Program& program, const program::Op& op) {
  constexpr std::string_view kGradient = "grad.";
  std::string_view name = program[program[op.outputs[0]].storage].name;
  const std::string_view module = module_of(name);
  if (!module.empty()) return std::string(module);
  if (name.starts_with(kGradient)) name.remove_prefix(kGradient.size());
  return std::string(name);
}

class TablesMaker {
 public:
  explicit TablesMaker(const Profile& profile) : profile_(profile) {}

  ProfileTables make() {
    for (size_t i = 0; i < profile_.history.size(); ++i) add(profile_.history[i], profile_.predicted[i]);
    add_categories();
    ProfileTables tables{sorted(ops_), sorted(modules_), {}, categories_, total_};
    for (const program::Phase phase : {program::Phase::forward, program::Phase::backward, program::Phase::update}) {
      const auto found = phases_.find(std::string(program::name(phase)));
      if (found != phases_.end()) tables.phases.push_back(found->second);
    }
    return tables;
  }

 private:
  using Rows = std::map<std::string, ProfileRow>;

  void add(const StepPart& part, const std::vector<double>& predicted) {
    const std::vector<int64_t> bytes = produced_bytes(part);
    for (size_t op = 0; op < part.program.ops.size(); ++op) {
      const program::Op& described = part.program.ops[op];
      const auto times = static_cast<double>(part.times);
      const ProfileRow one{.runs = part.times,
                           .predicted_s = times * predicted[op],
                           .measured_s = part.seconds.empty() ? 0 : times * part.seconds[op],
                           .bytes = bytes[op]};
      if (one.predicted_s == 0 && one.measured_s == 0 && one.bytes == 0) continue;  // a view
      add(ops_[described.def->name], described.def->name, one);
      const std::string module = module_of_op(part.program, described);
      add(modules_[module], module, one);
      const std::string phase(program::name(described.phase));
      add(phases_[phase], phase, one);
      add(total_, "together", one);
    }
  }

  static void add(ProfileRow& row, const std::string& name, const ProfileRow& one) {
    row.name = name;
    row.runs += one.runs;
    row.predicted_s += one.predicted_s;
    row.measured_s += one.measured_s;
    row.bytes += one.bytes;
  }

  // Alive at the op of the step at which the most bytes are.
  void add_categories() {
    std::array<int64_t, kAllCategories.size()> most = {};
    const auto sum = [](const auto& live) { return std::accumulate(live.begin(), live.end(), int64_t{0}); };
    for (const StepPart& part : profile_.history) {
      for (const auto& live : live_by_category(part)) {
        if (sum(live) > sum(most)) most = live;
      }
    }
    for (const Category category : kAllCategories) {
      const int64_t bytes = most[static_cast<size_t>(category)];
      if (bytes > 0) categories_.push_back({.name = std::string(name(category)), .bytes = bytes});
    }
    if (profile_.data) categories_.push_back({.name = "data", .bytes = profile_.data->peak_bytes});
    std::stable_sort(categories_.begin(), categories_.end(),
                     [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  }

  static std::vector<ProfileRow> sorted(const Rows& rows) {
    std::vector<ProfileRow> found;
    for (const auto& [name, row] : rows) found.push_back(row);
    std::stable_sort(found.begin(), found.end(), [](const ProfileRow& a, const ProfileRow& b) {
      return std::pair(a.measured_s, a.predicted_s) > std::pair(b.measured_s, b.predicted_s);
    });
    return found;
  }

  const Profile& profile_;
  Rows ops_;
  Rows modules_;
  Rows phases_;
  std::vector<ProfileRow> categories_;
  ProfileRow total_;
};

struct Waits {
  int64_t count = 0;
  int64_t last = 0;  // step, from 1; 0: none
  double seconds = 0;
};

Waits waits_of(const Profile& profile) {
  Waits waits;
  for (size_t i = 0; i < profile.steps.size(); ++i) {
    if (profile.steps[i].wait_seconds <= 0) continue;
    ++waits.count;
    waits.last = static_cast<int64_t>(i) + 1;
    waits.seconds += profile.steps[i].wait_seconds;
  }
  return waits;
}

double median_step(const Profile& profile) {
  std::vector<TrainedStep> steps;
  for (const ProfiledStep& step : profile.steps) steps.push_back({.seconds = step.seconds});
  return median_seconds(steps);
}

std::string rows_text(std::string_view title, const std::vector<ProfileRow>& rows, const ProfileRow& total) {
  std::string text = fmt::format("\n  {:<28} {:>5} {:>11} {:>11} {:>6} {:>12}\n", title, "runs", "predicted",
                                 "measured", "share", "bytes");
  const auto line = [&](std::string_view name, const ProfileRow& row) {
    const double share = total.measured_s > 0 ? 100 * row.measured_s / total.measured_s : 0;
    text += fmt::format("  {:<28} {:>5} {:>11} {:>11} {:>5.1f}% {:>12}\n", name, row.runs, time_text(row.predicted_s),
                        time_text(row.measured_s), share, format_bytes(row.bytes));
  };
  const size_t shown = std::min(rows.size(), kShownRows);
  for (size_t i = 0; i < shown; ++i) line(rows[i].name, rows[i]);
  if (shown == rows.size()) return text;
  ProfileRow rest;
  for (size_t i = shown; i < rows.size(); ++i) {
    rest.runs += rows[i].runs;
    rest.predicted_s += rows[i].predicted_s;
    rest.measured_s += rows[i].measured_s;
    rest.bytes += rows[i].bytes;
  }
  line(fmt::format("{} others", rows.size() - shown), rest);
  return text;
}

std::string data_text(const Profile& profile) {
  if (!profile.data) return "";
  const Waits waits = waits_of(profile);
  std::string text = fmt::format("\n  data: {} of {} planned, {} workers; ", format_bytes(profile.data->peak_bytes),
                                 format_bytes(profile.data->planned_bytes), profile.data->workers);
  if (waits.count == 0) return text + "no step waited for its batch\n";
  return text + fmt::format("{} of {} steps waited for their batch, {} in all, the last one step {}\n", waits.count,
                            profile.steps.size(), time_text(waits.seconds), waits.last);
}

nlohmann::ordered_json rows_json(const std::vector<ProfileRow>& rows) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ProfileRow& row : rows) {
    json.push_back({{"name", row.name},
                    {"runs", row.runs},
                    {"predicted_s", row.predicted_s},
                    {"measured_s", row.measured_s},
                    {"bytes", row.bytes}});
  }
  return json;
}

nlohmann::ordered_json profile_json(const Profile& profile) {
  const ProfileTables tables = tables_of(profile);
  nlohmann::ordered_json json = {{"title", profile.title},
                                 {"predicted_peak_bytes", profile.predicted_peak_bytes},
                                 {"measured_peak_bytes", profile.measured_peak_bytes},
                                 {"predicted_step_s", tables.total.predicted_s},
                                 {"measured_ops_s", tables.total.measured_s},
                                 {"median_step_s", median_step(profile)}};
  json["ops"] = rows_json(tables.ops);
  json["modules"] = rows_json(tables.modules);
  json["phases"] = rows_json(tables.phases);
  for (const ProfileRow& row : tables.categories) {
    json["categories"].push_back({{"name", row.name}, {"peak_bytes", row.bytes}});
  }
  if (profile.waits.ranks() > 0) json["ranks"] = waits_json(profile.waits);
  if (profile.data) {
    const Waits waits = waits_of(profile);
    json["data"] = {{"planned_bytes", profile.data->planned_bytes},
                    {"peak_bytes", profile.data->peak_bytes},
                    {"workers", profile.data->workers},
                    {"steps_that_waited", waits.count},
                    {"last_step_that_waited", waits.last},
                    {"wait_s", waits.seconds}};
  }
  return json;
}

// What is known of ops goes by those that have a kernel; an executor lets go of kernels once they are bound.
std::vector<double> predicted_seconds(const train::KnownCosts& costs, const run::Executor& executor) {
  kernels::Lowered lowered = executor.lowered();
  for (size_t op = 0; op < lowered.ops.size(); ++op) {
    const bool ran = op < executor.op_seconds().size() && executor.op_seconds()[op] > 0;
    if (ran) lowered.ops[op].kernel.bind = [](const kernels::Memory&) { return kernels::Task(); };
  }
  return costs.of(lowered).seconds;
}

}  // namespace

void OpTimes::add(run::Session& session) {
  if (!is_timed(session)) return;
  Times found;
  for (size_t i = 0; i < session.executors(); ++i) found.push_back(session.executor(i).op_seconds());
  const auto has_same_ops = [&](const Times& other) {
    return std::equal(other.begin(), other.end(), found.begin(), found.end(),
                      [](const auto& a, const auto& b) { return a.size() == b.size(); });
  };
  if (!last_.empty() && !has_same_ops(last_.back())) {
    last_.clear();
    steps_ = 0;
  }
  if (++steps_ == 2 || last_.size() == kMedianSteps) last_.pop_front();
  last_.push_back(std::move(found));
}

std::vector<std::vector<double>> OpTimes::median() const {
  if (last_.empty()) return {};
  Times median = last_.front();
  std::vector<double> one;
  for (size_t i = 0; i < median.size(); ++i) {
    for (size_t op = 0; op < median[i].size(); ++op) {
      one.clear();
      for (const Times& times : last_) one.push_back(times[i][op]);
      std::nth_element(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(one.size() / 2), one.end());
      median[i][op] = one[one.size() / 2];
    }
  }
  return median;
}

Profile profile_of(const std::string& title, run::Session& session, const OpTimes& times, const plan::StepPlan* plan) {
  Profile profile{.title = title};
  run::Executor& first = session.executor();
  profile.history = plan != nullptr ? history_of(*plan, session)
                                    : StepHistory{{"step", first.program(), first.memory(), first.op_seconds()}};
  const std::vector<std::vector<double>> median = times.median();
  const train::KnownCosts costs;
  for (size_t i = 0; i < profile.history.size(); ++i) {
    if (i < median.size()) profile.history[i].seconds = median[i];
    profile.predicted.push_back(predicted_seconds(costs, session.executor(i)));
  }
  return profile;
}

ProfileTables tables_of(const Profile& profile) { return TablesMaker(profile).make(); }

std::string profile_text(const Profile& profile) {
  const ProfileTables tables = tables_of(profile);
  std::string text = fmt::format("\n  profile of a step: ops {}, predicted {}; the whole step {} (median)\n",
                                 time_text(tables.total.measured_s), time_text(tables.total.predicted_s),
                                 time_text(median_step(profile)));
  text += rows_text("op", tables.ops, tables.total);
  text += rows_text("module", tables.modules, tables.total);
  text += rows_text("phase", tables.phases, tables.total);
  text += fmt::format("\n  {:<28} {:>12}\n", "category", "at the peak");
  for (const ProfileRow& row : tables.categories)
    text += fmt::format("  {:<28} {:>12}\n", row.name, format_bytes(row.bytes));
  text += fmt::format("  {:<28} {:>12}, predicted {}\n", "peak", format_bytes(profile.measured_peak_bytes),
                      format_bytes(profile.predicted_peak_bytes));
  return text + waits_table(profile.waits) + waits_line(profile.waits) + data_text(profile);
}

std::string profile_file(const Profile& profile) {
  MeasuredSteps measured{.profile =
                             profile_json(profile).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)};
  for (const ProfiledStep& step : profile.steps) {
    measured.seconds.push_back(step.seconds);
    if (profile.data) measured.waits.push_back(step.wait_seconds);
  }
  if (profile.data) measured.data_bytes = profile.data->peak_bytes;
  return chrome_trace(profile.history, profile.title, measured);
}

}  // namespace plimsoll::report
