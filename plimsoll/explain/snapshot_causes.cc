#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/causes.h"
#include "plimsoll/explain/evidence.h"
#include "plimsoll/explain/remedies.h"
#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

constexpr size_t kMostCulprits = 12;

class Verdict {
 public:
  Verdict(const Snapshot& snapshot, const DeviceState& device, const Timeline& timeline)
      : snapshot_(snapshot), device_(device), timeline_(timeline), oom_(find_oom(device)) {
    at_ = oom_ ? oom_->event : timeline.events;
    reserved_ = reserved_bytes(device, at_);
    live_ = timeline.live_bytes(at_);
    by_category_ = timeline.live_by_category(at_);
    if (oom_) cap_ = estimate_cap(*oom_, reserved_);
    growth_ = find_growth(timeline, at_);
  }

  Diagnosis decide() {
    diagnosis_.framework = Framework::torch;
    diagnosis_.device = std::to_string(device_.index);
    if (oom_) describe_failure();
    describe_situation();
    choose();
    situation_.cause = diagnosis_.cause;
    add_remedies(situation_, diagnosis_);
    add_accounts();
    add_facts();
    diagnosis_.culprits = culprits(snapshot_.stacks, timeline_, at_, kMostCulprits);
    return std::move(diagnosis_);
  }

 private:
  void is(Cause cause, Confidence confidence, std::string headline) {
    settle(diagnosis_, cause, confidence, std::move(headline));
  }

  // Snapshots are those of CUDA and ROCm alike, and do not say which; the variables that they hold may.
  void describe_situation() {
    situation_.framework = Framework::torch;
    situation_.backend = Backend::cuda;
    situation_.version = snapshot_.settings.count("PYTORCH_ALLOC_CONF") != 0 ? Version{2, 9} : Version{2, 1};
    situation_.from_snapshot = true;
    situation_.expandable_is_on = expandable_is_on();
    situation_.requested_bytes = diagnosis_.requested_bytes;
    situation_.limit_bytes = diagnosis_.limit_bytes;
    situation_.place = diagnosis_.place;
    if (cap_) {
      situation_.allowed_bytes = cap_->bytes;
      situation_.free_bytes = oom_->device_free_bytes;
    }
    const bool trains =
        bytes(Category::gradient) + bytes(Category::optimizer_state) > 0 || !timeline_.step_ends.empty();
    situation_.task = trains || bytes(Category::activation) > 0 ? Task::training : Task::unknown;
    diagnosis_.backend = situation_.backend;
    diagnosis_.task = situation_.task;
  }

  void describe_failure() {
    diagnosis_.requested_bytes = oom_->requested_bytes;
    diagnosis_.place = user_frame(snapshot_.stacks, oom_->stack);
    diagnosis_.limit_bytes = cap_ ? cap_->bytes : reserved_ + oom_->device_free_bytes;
  }

  void choose() {
    if (!oom_) return has_leak() ? leak() : healthy();
    if (oom_->requested_bytes >= kGarbage) {
      return is(Cause::garbage_size, Confidence::high, "The request is larger than any memory: its size is wrong");
    }
    if (oom_->requested_bytes > diagnosis_.limit_bytes) return too_large();
    if (holes() >= oom_->requested_bytes && !is_mostly_leaked()) return fragmented();
    if (has_leak()) return leak();
    if (is_odd_step()) return odd_step();
    composition();
  }

  int64_t holes() const { return std::max<int64_t>(0, reserved_ - live_); }
  int64_t bytes(Category category) const { return by_category_[static_cast<size_t>(category)]; }
  int64_t requested() const { return oom_ ? oom_->requested_bytes : 0; }

  bool expandable_is_on() const {
    const auto setting = snapshot_.settings.find("expandable_segments");
    const bool segments = std::any_of(device_.segments.begin(), device_.segments.end(),
                                      [](const Segment& segment) { return segment.expandable; });
    return segments || (setting != snapshot_.settings.end() && setting->second == "True");
  }

  void too_large() {
    is(Cause::request_too_large, Confidence::high,
       fmt::format("One request of {} is larger than the {} that this process could have at most",
                   format_bytes(requested()), format_bytes(*diagnosis_.limit_bytes)));
  }

  void fragmented() {
    situation_.idle_bytes = holes();
    situation_.idle_segment_bytes = whole_free_segments();
    is(Cause::fragmentation, holes() >= 2 * requested() ? Confidence::high : Confidence::medium,
       fmt::format("{} is free inside the allocator, {} was asked for at {}, and the largest free piece is {}",
                   format_bytes(holes()), format_bytes(requested()), diagnosis_.place, format_bytes(largest_hole())));
    for (const PinnedSegment& segment : first_pinned()) {
      diagnosis_.facts.push_back(
          {fmt::format("free in a segment of {} that {} live blocks pin, the largest from {}",
                       format_bytes(segment.bytes), segment.live_blocks, user_frame(snapshot_.stacks, segment.stack)),
           segment.free_bytes});
    }
  }

  std::vector<PinnedSegment> first_pinned() const {
    auto pinned = pinned_segments(device_);
    pinned.resize(std::min<size_t>(pinned.size(), 5));
    return pinned;
  }

  int64_t largest_hole() const {
    int64_t largest = 0;
    for (const Segment& segment : device_.segments) {
      for (const Block& block : segment.blocks) {
        if (block.state == BlockState::inactive) largest = std::max(largest, block.bytes);
      }
    }
    return largest;
  }

  int64_t whole_free_segments() const {
    int64_t sum = 0;
    for (const Segment& segment : device_.segments) {
      const bool empty = std::all_of(segment.blocks.begin(), segment.blocks.end(),
                                     [](const Block& block) { return block.state == BlockState::inactive; });
      if (empty) sum += segment.bytes;
    }
    return sum;
  }

  int64_t leaked() const {
    return std::accumulate(growth_.begin(), growth_.end(), int64_t{0},
                           [](int64_t sum, const Growth& growth) { return sum + growth.bytes; });
  }

  // Growth is the cause only when it is large: at least a tenth of what is alive, and as much as was missing.
  bool has_leak() const { return !growth_.empty() && leaked() * 10 >= live_ && leaked() >= requested(); }
  bool is_mostly_leaked() const { return has_leak() && leaked() * 2 >= live_; }

  void leak() {
    const Growth& first = growth_.front();
    const std::string place = user_frame(snapshot_.stacks, first.stack);
    const auto frames = snapshot_.stacks.frames(first.stack);
    diagnosis_.place = place;
    diagnosis_.bytes_per_step = 0;
    for (const Growth& growth : growth_) *diagnosis_.bytes_per_step += growth.bytes_per_step;
    const std::string unit = first.steps_known ? "step" : "call";
    is(Cause::leak, first.steps >= 10 ? Confidence::high : Confidence::medium,
       fmt::format("Every {} leaves {} behind: {} blocks ({}) made at {} ({}) over {} {}s are still alive", unit,
                   format_bytes(*diagnosis_.bytes_per_step), first.blocks, format_bytes(first.bytes), place,
                   frame_text(snapshot_.stacks, frames.front()), first.steps, unit));
    situation_.place = place;
    situation_.leak_per_step_bytes = first.bytes_per_step;
    situation_.leaked_bytes = leaked();
    for (size_t i = 0; i < std::min<size_t>(growth_.size(), 5); ++i) {
      diagnosis_.facts.push_back(
          {fmt::format("left behind per {} at {}", unit, user_frame(snapshot_.stacks, growth_[i].stack)),
           growth_[i].bytes_per_step});
    }
    if (oom_) return;
    for (const int64_t device_bytes : {16 * kGiB, 80 * kGiB}) {
      const int64_t left = (device_bytes - reserved_) / std::max<int64_t>(*diagnosis_.bytes_per_step, 1);
      if (left > 0) {
        diagnosis_.facts.push_back({fmt::format("a device of {} would be full after {} more {}s",
                                                format_bytes(device_bytes), format_count(left), unit),
                                    std::nullopt});
      }
    }
  }

  bool is_odd_step() const {
    const StepPeaks peaks = step_peaks(timeline_, at_);
    if (peaks.finished.size() < 4) return false;
    return peaks.current + requested() > usual_peak(peaks) + usual_peak(peaks) / 2;
  }

  static int64_t usual_peak(const StepPeaks& peaks) {
    std::vector<int64_t> later(peaks.finished.begin() + 1, peaks.finished.end());  // the first one warms up
    std::nth_element(later.begin(), later.begin() + static_cast<ptrdiff_t>(later.size() / 2), later.end());
    return later[later.size() / 2];
  }

  void odd_step() {
    const StepPeaks peaks = step_peaks(timeline_, at_);
    const int64_t usual = usual_peak(peaks);
    is(Cause::odd_step, Confidence::high,
       fmt::format("This step needed at least {} where {} steps before it peaked at {}: an odd shape, not a trend",
                   format_bytes(peaks.current + requested()), peaks.finished.size(), format_bytes(usual)));
    situation_.excess_bytes = peaks.current + requested() - usual;
  }

  // What fills the memory, by kind.
  void composition() {
    const int64_t state = bytes(Category::parameter) + bytes(Category::gradient) + bytes(Category::optimizer_state);
    const int64_t activations = bytes(Category::activation) + bytes(Category::input);
    const int64_t scratch = bytes(Category::scratch);
    const int64_t unknown = bytes(Category::other);
    const int64_t most = std::max({state, activations, scratch, unknown});
    if (most == activations) return full_of_activations(activations);
    if (most == state) return full_of_state(state);
    if (most == scratch) {
      situation_.scratch_bytes = scratch;
      return is(Cause::workspace, Confidence::medium,
                fmt::format("{} is temporary memory of the optimizer and libraries", format_bytes(scratch)));
    }
    is(Cause::device_full, Confidence::medium,
       fmt::format("{} of {} is alive and {} was asked for, but most of it is older than the recording",
                   format_bytes(live_), format_bytes(*diagnosis_.limit_bytes), format_bytes(requested())));
  }

  std::string where_limited() const {
    return cap_ ? fmt::format("a cap of about {} (the device had {} free)", format_bytes(cap_->bytes),
                              format_bytes(oom_->device_free_bytes))
                : fmt::format("{}", format_bytes(*diagnosis_.limit_bytes));
  }

  void full_of_activations(int64_t activations) {
    situation_.activation_bytes = activations;
    describe_checkpointing();
    is(Cause::activations, activations * 2 >= live_ ? Confidence::high : Confidence::medium,
       fmt::format("{} of the {} alive are activations, at {}; {} more was asked for at {}", format_bytes(activations),
                   format_bytes(live_), where_limited(), format_bytes(requested()), diagnosis_.place));
  }

  // Checkpointing keeps the input of each repeated block and the inside of one; inputs are taken as a tenth.
  void describe_checkpointing() {
    const auto blocks = find_repeated_blocks(snapshot_.stacks, timeline_, at_);
    if (!blocks) return;
    situation_.blocks = blocks->count;
    situation_.place = blocks->place;
    situation_.transformers = blocks->transformers;
    situation_.checkpoint_saves_bytes = blocks->bytes - blocks->bytes / blocks->count - blocks->bytes / 10;
  }

  void full_of_state(int64_t state) {
    situation_.state_bytes = state;
    situation_.optimizer_bytes = bytes(Category::optimizer_state);
    situation_.scratch_bytes = bytes(Category::scratch);
    is(Cause::parameters_and_optimizer, state * 2 >= live_ ? Confidence::high : Confidence::medium,
       fmt::format("{} of the {} alive are weights, gradients and optimizer state, at {}", format_bytes(state),
                   format_bytes(live_), where_limited()));
  }

  // A trace has no segments of an allocator, only blocks.
  bool knows_reserved() const { return reserved_ >= timeline_.peak_bytes; }

  void healthy() {
    const size_t steps = timeline_.step_ends.size();
    is(Cause::healthy, steps >= 3 || timeline_.events == 0 ? Confidence::high : Confidence::medium,
       fmt::format("No request failed{}: the peak was {} live{}",
                   steps >= 3 ? fmt::format(" and nothing grew over {} steps", steps) : "",
                   format_bytes(timeline_.peak_bytes),
                   knows_reserved() ? fmt::format(" of {} reserved", format_bytes(reserved_)) : ""));
    const int64_t idle = reserved_ - timeline_.peak_bytes;
    if (idle > 0) diagnosis_.facts.push_back({"reserved beyond the recorded peak, and so idle", idle});
  }

  void add_accounts() {
    Account live{oom_ ? "alive at the failure" : "alive at the end", live_, {}};
    for (const Category category : kAllCategories) {
      const std::string_view label = category == Category::other ? unknown_label() : name(category);
      if (bytes(category) > 0) live.parts.push_back({std::string(label), bytes(category)});
    }
    diagnosis_.accounts.push_back(std::move(live));
    if (reserved_ >= live_ && (oom_ || knows_reserved())) {
      diagnosis_.accounts.push_back(
          {"reserved by the allocator", reserved_, {{"alive", live_}, {"free in it", holes()}}});
    }
    if (timeline_.peak_event != at_ && timeline_.peak_bytes > live_) add_peak_account();
  }

  std::string_view unknown_label() const {
    return snapshot_.categories.empty() ? "unknown (older than the recording)" : "unknown (no tag)";
  }

  void add_peak_account() {
    Account peak{"alive at the peak", timeline_.peak_bytes, {}};
    const CategoryBytes by_category = timeline_.live_by_category(timeline_.peak_event);
    for (const Category category : kAllCategories) {
      const int64_t part = by_category[static_cast<size_t>(category)];
      const std::string_view label = category == Category::other ? unknown_label() : name(category);
      if (part > 0) peak.parts.push_back({std::string(label), part});
    }
    diagnosis_.accounts.push_back(std::move(peak));
  }

  void add_facts() {
    if (!oom_) return;
    diagnosis_.facts.push_back({"asked for", requested()});
    diagnosis_.facts.push_back({"free on the device at the failure", oom_->device_free_bytes});
    if (cap_) {
      diagnosis_.facts.push_back({fmt::format("cap in force, between {} and {}", format_bytes(cap_->least_bytes),
                                              format_bytes(cap_->most_bytes)),
                                  cap_->bytes});
    }
    if (diagnosis_.cause != Cause::fragmentation) {
      diagnosis_.facts.push_back({"free inside the allocator: the most that less fragmentation could win", holes()});
    }
  }

  const Snapshot& snapshot_;
  const DeviceState& device_;
  const Timeline& timeline_;
  std::optional<OomEvent> oom_;
  std::optional<CapEstimate> cap_;
  std::vector<Growth> growth_;
  CategoryBytes by_category_{};
  int64_t at_ = 0;  // the moment judged: the failure, or the end
  int64_t reserved_ = 0;
  int64_t live_ = 0;
  Situation situation_;
  Diagnosis diagnosis_;
};

}  // namespace

Diagnosis diagnose(const Snapshot& snapshot, const DeviceState& device, const Timeline& timeline) {
  return Verdict(snapshot, device, timeline).decide();
}

}  // namespace plimsoll::explain
