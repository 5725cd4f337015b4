#include "plimsoll/report/html_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/causes.h"
#include "plimsoll/explain/evidence.h"
#include "plimsoll/explain/text_scan.h"
#include "plimsoll/report/segment_history.h"
#include "plimsoll/report/what_if.h"

namespace plimsoll::report {
namespace {

using explain::DeviceState;
using explain::Diagnosis;
using explain::Lifetime;
using explain::Snapshot;
using explain::Timeline;

const DeviceState* device_to_draw(const Snapshot& snapshot) {
  for (const DeviceState& device : snapshot.devices) {
    if (find_oom(device)) return &device;
  }
  return snapshot.devices.empty() ? nullptr : &snapshot.devices.front();
}

FrameKind kind_of(std::string_view file, std::string_view function) {
  for (const char* part : {"/torch/", "<frozen", "/contextlib.py", "/threading.py"}) {
    if (explain::contains(file, part)) return FrameKind::plumbing;
  }
  const bool library = explain::is_library_file(file);
  for (const char* part : {"wrapper", "wrapped", "decorate_context", "__call__", "_call_impl"}) {
    if (library && function == part) return FrameKind::plumbing;
  }
  return library ? FrameKind::library : FrameKind::own;
}

// Labels of stacks, each looked at once.
class StackLabels {
 public:
  StackLabels(const explain::StackTable& stacks, PageLabels& labels)
      : stacks_(stacks), labels_(labels), known_(stacks.size(), kUnknown) {}

  uint32_t of(uint32_t stack) {
    if (known_[stack] == kUnknown) known_[stack] = make(stack);
    return known_[stack];
  }
  uint32_t older() {
    const uint32_t frame = labels_.frame("(older than the recording)", FrameKind::own);
    return labels_.label(frame, {frame});
  }

 private:
  static constexpr uint32_t kUnknown = UINT32_MAX;

  uint32_t make(uint32_t stack) {
    const uint32_t place = labels_.frame(user_frame(stacks_, stack), FrameKind::own);
    std::vector<uint32_t> path;
    for (const uint32_t frame : stacks_.frames(stack)) {
      path.push_back(labels_.frame(frame_text(stacks_, frame), kind_of(stacks_.file(frame), stacks_.name(frame))));
    }
    std::reverse(path.begin(), path.end());
    return labels_.label(place, path.empty() ? std::vector<uint32_t>{place} : path);
  }

  const explain::StackTable& stacks_;
  PageLabels& labels_;
  std::vector<uint32_t> known_;
};

// The lifetimes as blocks, and the request that failed as one more. Addresses count from the lowest.
class History {
 public:
  History(const explain::Input& input, const DeviceState& device, const Timeline& timeline, Page& page)
      : snapshot_(input.snapshot),
        device_(device),
        timeline_(timeline),
        has_addresses_(input.kind == explain::InputKind::snapshot),
        labels_(page),
        stacks_(input.snapshot.stacks, labels_) {}

  PageTimeline make() {
    made_.name = "as recorded";
    made_.unit = "event";
    made_.positions = static_cast<int32_t>(timeline_.events);
    for (const explain::SnapshotEvent& event : device_.events) {
      const double since = static_cast<double>(event.time_us) - static_cast<double>(device_.events.front().time_us);
      made_.seconds.push_back(static_cast<float>(since / 1e6));
    }
    made_.seconds.push_back(made_.seconds.empty() ? 0.0f : made_.seconds.back());
    if (has_addresses_) made_.ranges = segment_history(device_);
    for (const Lifetime* lifetime : drawn_lifetimes(timeline_)) add(*lifetime);
    add_failure();
    for (const int64_t step : timeline_.step_ends) made_.marks.push_back({"step", static_cast<int32_t>(step), ""});
    shift_addresses();
    return std::move(made_);
  }

 private:
  void add(const Lifetime& lifetime) {
    const bool older = lifetime.begin < 0 && lifetime.stack == 0;
    made_.blocks.push_back({lifetime.bytes, static_cast<int32_t>(std::max<int64_t>(0, lifetime.begin)),
                            static_cast<int32_t>(std::min(lifetime.end, timeline_.events)),
                            older ? stacks_.older() : stacks_.of(lifetime.stack),
                            static_cast<uint8_t>(lifetime.category), 0,
                            has_addresses_ ? static_cast<int64_t>(lifetime.address) : -1});
  }

  void add_failure() {
    const auto oom = find_oom(device_);
    if (!oom) return;
    const auto at = static_cast<int32_t>(oom->event);
    made_.marks.push_back({"failure", at,
                           fmt::format("out of memory: {} asked for at {}", format_bytes(oom->requested_bytes),
                                       user_frame(snapshot_.stacks, oom->stack))});
    if (oom->requested_bytes <= 0 || oom->requested_bytes >= explain::kGarbage) return;
    made_.blocks.push_back({oom->requested_bytes, at, at + 1, stacks_.of(oom->stack), kFailedRequest, 0, 0});
  }

  void shift_addresses() {
    if (!has_addresses_) return;
    int64_t lowest = INT64_MAX;
    for (const PageBlock& block : made_.blocks) {
      if (block.category != kFailedRequest) lowest = std::min(lowest, block.address);
    }
    for (const PageRange& range : made_.ranges) lowest = std::min(lowest, range.address);
    for (PageBlock& block : made_.blocks) block.address = std::max<int64_t>(0, block.address - lowest);
    for (PageRange& range : made_.ranges) range.address -= lowest;
  }

  const Snapshot& snapshot_;
  const DeviceState& device_;
  const Timeline& timeline_;
  bool has_addresses_;
  PageLabels labels_;
  StackLabels stacks_;
  PageTimeline made_;
};

void add_history(Page& page, const explain::Input& input) {
  const DeviceState* device = device_to_draw(input.snapshot);
  if (device == nullptr || device->events.size() >= INT32_MAX) return;
  const Timeline timeline = make_timeline(input.snapshot, *device, stack_roles(input.snapshot.stacks));
  if (timeline.events == 0) return;
  page.timelines.push_back(History(input, *device, timeline, page).make());
  add_what_if(page, {input, *device, timeline});
}

std::string spaced(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

PageVerdict verdict_of(const Diagnosis& diagnosis) {
  PageVerdict verdict{diagnosis.cause == explain::Cause::healthy ? "good" : "bad", spaced(name(diagnosis.cause)),
                      diagnosis.headline};
  verdict.chips.push_back(fmt::format("{} confidence", name(diagnosis.confidence)));
  if (!diagnosis.device.empty()) verdict.chips.push_back("device " + diagnosis.device);
  if (!diagnosis.rank.empty()) verdict.chips.push_back(diagnosis.rank);
  if (diagnosis.line > 0) verdict.chips.push_back(fmt::format("line {}", diagnosis.line));
  if (!diagnosis.place.empty()) verdict.chips.push_back(diagnosis.place);
  return verdict;
}

void add_diagnosis(Page& page, const Diagnosis& diagnosis) {
  page.verdict = verdict_of(diagnosis);
  if (diagnosis.requested_bytes)
    page.figures.push_back({"asked for", *diagnosis.requested_bytes, "the request that failed"});
  for (const explain::Account& account : diagnosis.accounts)
    page.figures.push_back({account.name, account.total_bytes});
  if (diagnosis.limit_bytes) {
    page.limit = PageFigure{"limit", *diagnosis.limit_bytes, ""};
    page.figures.push_back({"limit", *diagnosis.limit_bytes, "the most there could be"});
  }
  page.cards_title = "What would help";
  for (const explain::Remedy& remedy : diagnosis.remedies) {
    page.cards.push_back({remedy.action, remedy.setting, remedy.saves_bytes, remedy.cost});
  }
}

}  // namespace

Page explanation_page(const explain::Explanation& explanation, const explain::Input& input) {
  Page page;
  page.verb = "explain";
  page.title = std::filesystem::path(explanation.source).filename().string();
  page.verdict = {"neutral", "nothing found", "No sign that memory ran out"};
  page.notes = explanation.notes;
  page.explanation = explanation;
  if (!explanation.diagnoses.empty()) add_diagnosis(page, explanation.diagnoses.front());
  const bool has_history = input.kind != explain::InputKind::log && explanation.kind != "comparison";
  if (has_history) add_history(page, input);
  return page;
}

std::string html_page(const explain::Explanation& explanation, const explain::Input& input) {
  return html(explanation_page(explanation, input));
}

}  // namespace plimsoll::report
