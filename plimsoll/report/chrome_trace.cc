#include "plimsoll/report/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plimsoll/explain/stack_roles.h"
#include "plimsoll/explain/timeline.h"

namespace plimsoll::report {
namespace {

using explain::Action;
using explain::Lifetime;

std::string quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

class Writer {
 public:
  explicit Writer(const explain::Snapshot& snapshot) : snapshot_(snapshot), roles_(stack_roles(snapshot.stacks)) {}

  std::string write() {
    text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
    for (const explain::DeviceState& device : snapshot_.devices) write(device);
    for (const explain::Annotation& annotation : snapshot_.annotations) {
      if (annotation.start) instant(annotation.name, annotation.time_us, annotation.device, "t");
    }
    return text_ + "]}\n";
  }

 private:
  void separate() {
    if (!first_) text_ += ",\n";
    first_ = false;
  }

  void write(const explain::DeviceState& device) {
    separate();
    text_ += fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"device {}"}}}})", device.index,
                         device.index);
    const explain::Timeline timeline = make_timeline(snapshot_, device, roles_);
    counters(device, timeline);
    for (const explain::SnapshotEvent& event : device.events) {
      if (event.action != Action::oom) continue;
      instant("out of memory at " + user_frame(snapshot_.stacks, event.stack), event.time_us, device.index, "p");
    }
  }

  // One counter sample per moment, not per event: viewers show no more than that.
  void counters(const explain::DeviceState& device, const explain::Timeline& timeline) {
    std::vector<std::vector<std::pair<uint8_t, int64_t>>> changes(device.events.size() + 1);
    explain::CategoryBytes live{};
    for (const Lifetime& lifetime : timeline.lifetimes) {
      const auto category = static_cast<uint8_t>(lifetime.category);
      if (lifetime.begin < 0) live[category] += lifetime.bytes;
      if (lifetime.begin >= 0) changes[static_cast<size_t>(lifetime.begin)].emplace_back(category, lifetime.bytes);
      if (lifetime.end < timeline.events)
        changes[static_cast<size_t>(lifetime.end)].emplace_back(category, -lifetime.bytes);
    }
    for (size_t i = 0; i < device.events.size(); ++i) {
      for (const auto& [category, bytes] : changes[i]) live[category] += bytes;
      const bool last_of_moment =
          i + 1 == device.events.size() || device.events[i + 1].time_us != device.events[i].time_us;
      if (last_of_moment) counter(device.events[i].time_us, device.index, live);
    }
  }

  void counter(int64_t time_us, int device, const explain::CategoryBytes& live) {
    separate();
    text_ += fmt::format(R"({{"ph":"C","name":"live bytes","pid":{},"ts":{},"args":{{)", device, time_us);
    for (size_t i = 0; i < kAllCategories.size(); ++i) {
      text_ += fmt::format("{}\"{}\":{}", i == 0 ? "" : ",", name(kAllCategories[i]),
                           live[static_cast<size_t>(kAllCategories[i])]);
    }
    text_ += "}}";
  }

  void instant(std::string_view label, int64_t time_us, int device, const char* scope) {
    separate();
    text_ += fmt::format(R"({{"ph":"i","name":{},"pid":{},"tid":0,"ts":{},"s":"{}"}})", quoted(label), device, time_us,
                         scope);
  }

  const explain::Snapshot& snapshot_;
  std::vector<explain::StackRole> roles_;
  std::string text_;
  bool first_ = true;
};

}  // namespace

std::string chrome_trace(const explain::Snapshot& snapshot) { return Writer(snapshot).write(); }

}  // namespace plimsoll::report
