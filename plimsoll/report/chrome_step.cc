// Steps of models as Chrome traces.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plimsoll/program/op.h"
#include "plimsoll/report/chrome_trace.h"

namespace plimsoll::report {
namespace {

constexpr int kCopies = 4;  // track, after those of the phases
constexpr int kSteps = 5;
constexpr int kData = 6;

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

class StepWriter {
 public:
  StepWriter(const StepHistory& history, const std::string& title) : history_(history), title_(title) {}

  std::string write(const MeasuredSteps& measured) {
    text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
    name_tracks(measured);
    data_bytes_ = measured.data_bytes;
    for (const StepPart& part : history_) {
      const auto live = live_by_category(part);
      for (int64_t run = 0; run < part.times; ++run) write(part, live);
    }
    if (peak_bytes_ > 0) {
      add(R"("ph":"i","name":{},"tid":0,"ts":{:.3f},"s":"p")",
          json_text(fmt::format("peak: {} bytes live", peak_bytes_)), peak_us_);
    }
    write_steps(measured);
    return text_ + (measured.profile.empty() ? "]}\n" : fmt::format("],\"plimsoll\":{}}}\n", measured.profile));
  }

 private:
  template <typename... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    text_ += first_ ? "{" : ",\n{";
    first_ = false;
    text_ += fmt::format(format, std::forward<Values>(values)...);
    text_ += ",\"pid\":0}";
  }

  void name_tracks(const MeasuredSteps& measured) {
    add(R"("ph":"M","name":"process_name","args":{{"name":{}}})", json_text(title_));
    const auto track = [&](int tid, std::string_view name) {
      add(R"("ph":"M","name":"thread_name","tid":{},"args":{{"name":"{}"}})", tid, name);
    };
    for (const program::Phase phase : {program::Phase::forward, program::Phase::backward, program::Phase::update}) {
      track(track_of(phase), name(phase));
    }
    track(kCopies, "copies");
    if (!measured.seconds.empty()) track(kSteps, "steps, measured");
    if (!measured.waits.empty()) track(kData, "waiting for data");
  }

  static int track_of(program::Phase phase) { return static_cast<int>(phase) + 1; }

  static int track_of(const program::Op& op) {
    const std::string_view name = op.def->name;
    return name.starts_with("spill") || name.starts_with("fetch") ? kCopies : track_of(op.phase);
  }

  using Live = std::vector<std::array<int64_t, kAllCategories.size()>>;

  void write(const StepPart& part, const Live& live) {
    for (size_t op = 0; op < part.program.ops.size(); ++op) {
      const double us = part.seconds.empty() ? 1.0 : part.seconds[op] * 1e6;
      counter(live[op]);
      add(R"("ph":"X","name":{},"cat":"{}","tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"op":{},"part":{}}})",
          json_text(op_text(part.program, op)), name(part.program.ops[op].phase), track_of(part.program.ops[op]),
          now_us_, us, op, json_text(part.name));
      now_us_ += us;
    }
  }

  void counter(const std::array<int64_t, kAllCategories.size()>& live) {
    std::string values;
    int64_t bytes = 0;
    for (const Category category : kAllCategories) {
      const int64_t held = live[static_cast<size_t>(category)];
      values += fmt::format("{}\"{}\":{}", values.empty() ? "" : ",", name(category), held);
      bytes += held;
    }
    if (data_bytes_ > 0) values += fmt::format(",\"data\":{}", data_bytes_);
    add(R"("ph":"C","name":"live bytes","ts":{:.3f},"args":{{{}}})", now_us_, values);
    if (bytes <= peak_bytes_) return;
    peak_bytes_ = bytes;
    peak_us_ = now_us_;
  }

  // Side by side from the start, as they followed each other.
  void write_steps(const MeasuredSteps& measured) {
    double at = 0;
    const auto event = [&](std::string_view name, size_t step, int track, double seconds) {
      add(R"("ph":"X","name":"{} {}","cat":"step","tid":{},"ts":{:.3f},"dur":{:.3f})", name, step + 1, track, at,
          seconds * 1e6);
      at += seconds * 1e6;
    };
    for (size_t i = 0; i < measured.seconds.size(); ++i) {
      if (i < measured.waits.size() && measured.waits[i] > 0) event("wait of step", i, kData, measured.waits[i]);
      event("step", i, kSteps, measured.seconds[i]);
    }
  }

  const StepHistory& history_;
  const std::string& title_;
  std::string text_;
  bool first_ = true;
  double now_us_ = 0;
  double peak_us_ = 0;
  int64_t peak_bytes_ = 0;
  int64_t data_bytes_ = 0;
};

}  // namespace

std::string chrome_trace(const StepHistory& history, const std::string& title, const MeasuredSteps& measured) {
  return StepWriter(history, title).write(measured);
}

}  // namespace plimsoll::report
