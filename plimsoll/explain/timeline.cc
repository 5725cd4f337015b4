#include "plimsoll/explain/timeline.h"

#include <algorithm>
#include <unordered_map>

namespace plimsoll::explain {
namespace {

class Builder {
 public:
  Builder(const DeviceState& device, Timeline& timeline) : device_(device), timeline_(timeline) {}

  void build() {
    timeline_.events = static_cast<int64_t>(device_.events.size());
    for (int64_t i = 0; i < timeline_.events; ++i) take(device_.events[static_cast<size_t>(i)], i);
    match_final_state();
  }

 private:
  void take(const SnapshotEvent& event, int64_t at) {
    if (event.action == Action::alloc) {
      close(event.address, at, 0);  // its free was not recorded
      open_[event.address] = timeline_.lifetimes.size();
      timeline_.lifetimes.push_back({event.bytes, at, Lifetime::kAlive, event.address, event.stack, 0, {}});
    } else if (event.action == Action::free_requested) {
      if (!close(event.address, at, event.stack)) add_older(event, at);
    } else if (event.action == Action::free_completed && open_.count(event.address) != 0) {
      close(event.address, at, event.stack);
    }
  }

  bool close(uint64_t address, int64_t at, uint32_t free_stack) {
    const auto found = open_.find(address);
    if (found == open_.end()) return false;
    Lifetime& lifetime = timeline_.lifetimes[found->second];
    lifetime.end = at;
    lifetime.free_stack = free_stack;
    open_.erase(found);
    return true;
  }

  void add_older(const SnapshotEvent& event, int64_t at) {
    timeline_.lifetimes.push_back({event.bytes, -1, at, event.address, 0, event.stack, {}});
  }

  // The state is the authority on what is alive at the end: it knows blocks that are older than the recording, with
  // or without their stacks, and an open block that it does not know is gone.
  void match_final_state() {
    for (const Segment& segment : device_.segments) {
      for (const Block& block : segment.blocks) {
        if (block.state != BlockState::active) continue;
        const auto found = open_.find(block.address);
        if (found != open_.end()) {
          timeline_.lifetimes[found->second].bytes = block.bytes;  // events tell what was asked, blocks what was given
          open_.erase(found);
        } else {
          timeline_.lifetimes.push_back({block.bytes, -1, Lifetime::kAlive, block.address, block.stack, 0, {}});
        }
      }
    }
    for (const auto& [address, index] : open_) timeline_.lifetimes[index].end = timeline_.events;
  }

  const DeviceState& device_;
  Timeline& timeline_;
  std::unordered_map<uint64_t, size_t> open_;  // by address
};

int64_t position_of(const DeviceState& device, int64_t time_us) {
  const auto after = std::upper_bound(device.events.begin(), device.events.end(), time_us,
                                      [](int64_t time, const SnapshotEvent& event) { return time < event.time_us; });
  return after - device.events.begin();
}

void add_marked_steps(const Snapshot& snapshot, const DeviceState& device, Timeline& timeline) {
  for (const Annotation& annotation : snapshot.annotations) {
    const bool step_end = !annotation.start && annotation.name.starts_with("Optimizer.step#");
    if (step_end && annotation.device == device.index) {
      timeline.step_ends.push_back(position_of(device, annotation.time_us));
    }
  }
  std::sort(timeline.step_ends.begin(), timeline.step_ends.end());
  timeline.steps_are_marked = !timeline.step_ends.empty();
}

// Without marks a step ends where the optimizer's allocations are followed by someone else's.
void add_steps_of_stacks(const DeviceState& device, const std::vector<StackRole>& roles, Timeline& timeline) {
  bool inside = false;
  for (size_t i = 0; i < device.events.size(); ++i) {
    const SnapshotEvent& event = device.events[i];
    if (event.action != Action::alloc || event.stack == 0) continue;
    if (inside && !roles[event.stack].optimizer_step) timeline.step_ends.push_back(static_cast<int64_t>(i));
    inside = roles[event.stack].optimizer_step;
  }
}

// Whether the block lived when some optimizer step ended.
bool outlives_step(const Lifetime& lifetime, const std::vector<int64_t>& step_ends) {
  const auto next = std::upper_bound(step_ends.begin(), step_ends.end(), lifetime.begin);
  return next != step_ends.end() && lifetime.end >= *next;
}

// cuBLAS workspaces are ordinary blocks of the allocator. They are told by their sizes, which the architecture fixes,
// by being made in the first step, and by never being freed.
bool is_workspace(const Lifetime& lifetime, const std::vector<int64_t>& step_ends) {
  const bool known_size = lifetime.bytes == 8'519'680 || lifetime.bytes == 33'554'432;
  return known_size && lifetime.end == Lifetime::kAlive && !step_ends.empty() && lifetime.begin < step_ends.front();
}

Category category_of(const Lifetime& lifetime, const StackRole& role, const StackRole& free_role,
                     const std::vector<int64_t>& step_ends) {
  if (free_role.zero_grad || role.zero_grad) return Category::gradient;
  if (role.optimizer_state) return Category::optimizer_state;
  if (role.optimizer_step) {
    return outlives_step(lifetime, step_ends) ? Category::optimizer_state : Category::scratch;
  }
  if (role.parameter) return Category::parameter;
  if (lifetime.stack == 0 && lifetime.begin >= 0) {  // the autograd engine's threads have no Python stack
    return outlives_step(lifetime, step_ends) ? Category::gradient : Category::activation;
  }
  if (role.backward) return outlives_step(lifetime, step_ends) ? Category::gradient : Category::activation;
  if (role.forward) return is_workspace(lifetime, step_ends) ? Category::scratch : Category::activation;
  return lifetime.stack == 0 ? Category::other : Category::input;
}

void find_peak(Timeline& timeline) {
  std::vector<int64_t> change(static_cast<size_t>(timeline.events) + 1, 0);
  for (const Lifetime& lifetime : timeline.lifetimes) {
    if (lifetime.begin < 0) timeline.start_bytes += lifetime.bytes;
    if (lifetime.begin >= 0) change[static_cast<size_t>(lifetime.begin)] += lifetime.bytes;
    if (lifetime.end < timeline.events) change[static_cast<size_t>(lifetime.end)] -= lifetime.bytes;
  }
  int64_t live = timeline.start_bytes;
  timeline.peak_bytes = live;
  for (int64_t i = 0; i < timeline.events; ++i) {
    live += change[static_cast<size_t>(i)];
    if (live <= timeline.peak_bytes) continue;
    timeline.peak_bytes = live;
    timeline.peak_event = i + 1;
  }
  timeline.end_bytes = live;
}

}  // namespace

int64_t Timeline::live_bytes(int64_t event) const {
  int64_t sum = 0;
  for (const Lifetime& lifetime : lifetimes) sum += lifetime.alive_at(event) ? lifetime.bytes : 0;
  return sum;
}

CategoryBytes Timeline::live_by_category(int64_t event) const {
  CategoryBytes bytes{};
  for (const Lifetime& lifetime : lifetimes) {
    if (lifetime.alive_at(event)) bytes[static_cast<size_t>(lifetime.category)] += lifetime.bytes;
  }
  return bytes;
}

Timeline make_timeline(const Snapshot& snapshot, const DeviceState& device, const std::vector<StackRole>& roles) {
  Timeline timeline;
  Builder(device, timeline).build();
  add_marked_steps(snapshot, device, timeline);
  if (!timeline.steps_are_marked) add_steps_of_stacks(device, roles, timeline);
  for (Lifetime& lifetime : timeline.lifetimes) {
    const auto told = snapshot.categories.find(lifetime.stack);
    lifetime.category = told != snapshot.categories.end() ? told->second
                                                          : category_of(lifetime, roles[lifetime.stack],
                                                                        roles[lifetime.free_stack], timeline.step_ends);
  }
  find_peak(timeline);
  return timeline;
}

}  // namespace plimsoll::explain
