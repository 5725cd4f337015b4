#include "plimsoll/plan/overlap.h"

#include <algorithm>

namespace plimsoll::plan {
namespace {

size_t at(int32_t place) { return static_cast<size_t>(place); }

class Overlap {
 public:
  Overlap(const StepGraph& graph, int64_t limit_bytes, Schedule& schedule)
      : graph_(graph),
        limit_bytes_(limit_bytes),
        schedule_(schedule),
        steps_(static_cast<int32_t>(schedule.steps.size())),
        begins_(schedule.steps.size() + 1, 0) {
    for (ScheduledCopy& copy : schedule.copies) (copy.fetches ? fetches_ : spills_).push_back(&copy);
  }

  void run() {
    const auto by_start = [](const ScheduledCopy* a, const ScheduledCopy* b) { return a->start < b->start; };
    std::stable_sort(spills_.begin(), spills_.end(), by_start);
    std::stable_sort(fetches_.begin(), fetches_.end(), by_start);
    finish_spills();
    start_fetches();
    std::stable_sort(fetches_.begin(), fetches_.end(), by_start);
    schedule_.seconds = act_out();
  }

 private:
  double node_seconds(int32_t step) const { return graph_.nodes[at(schedule_.steps[at(step)].node)].seconds; }
  int64_t bytes_of(const ScheduledCopy& copy) const {
    return graph_.storages[at(schedule_.instances[at(copy.instance)].storage)].bytes;
  }
  double seconds_of(const ScheduledCopy& copy) const {
    return static_cast<double>(bytes_of(copy)) / graph_.spill.bytes_per_s;
  }
  bool has_room(int32_t step, int64_t bytes) const { return schedule_.live_bytes[at(step)] + bytes <= limit_bytes_; }

  // Holds what is being spilled as long as there is room. Comes with `finish` as the last moment: the fetch.
  void finish_spills() {
    double now = 0;
    double disk = 0;
    size_t next = 0;
    std::vector<std::pair<ScheduledCopy*, double>> going;  // with the time when each is done
    for (int32_t step = 0; step < steps_; ++step) {
      for (; next < spills_.size() && spills_[next]->start == step; ++next) {
        disk = std::max(now, disk) + seconds_of(*spills_[next]);
        going.emplace_back(spills_[next], disk);
      }
      for (size_t i = going.size(); i-- > 0;) {  // the newest are done last, so it is the oldest that are waited for
        auto [spill, done] = going[i];
        if (schedule_.instances[at(spill->instance)].last >= step) continue;
        if (done > now && spill->finish > step && has_room(step, bytes_of(*spill))) {
          schedule_.live_bytes[at(step)] += bytes_of(*spill);
          continue;
        }
        now = std::max(now, done);
        spill->finish = step;
        going.erase(going.begin() + static_cast<std::ptrdiff_t>(i));
      }
      begins_[at(step)] = now;
      now += node_seconds(step);
    }
    begins_.back() = now;
  }

  // Starts each in time to be done when it is wanted, or as soon as there is room: the last first.
  void start_fetches() {
    double free_until = begins_.back();
    for (auto it = fetches_.rbegin(); it != fetches_.rend(); ++it) {
      ScheduledCopy& fetch = **it;
      const double wanted = std::min(begins_[at(fetch.finish)], free_until) - seconds_of(fetch);
      const int32_t earliest = std::max(fetch.earliest, schedule_.copies[at(fetch.spill)].finish);
      while (fetch.start > earliest && begins_[at(fetch.start)] > wanted &&
             has_room(fetch.start - 1, bytes_of(fetch))) {
        --fetch.start;
        schedule_.live_bytes[at(fetch.start)] += bytes_of(fetch);
      }
      free_until = std::max(wanted, begins_[at(fetch.start)]);
    }
  }

  // Of all copies; when they take it does not matter.
  double processor_seconds() const {
    double bytes = 0;
    for (const ScheduledCopy& copy : schedule_.copies) bytes += static_cast<double>(bytes_of(copy));
    return bytes * graph_.spill.processor_s_per_byte;
  }

  // The time that it all takes.
  double act_out() {
    double now = processor_seconds();
    double disk = 0;
    size_t next_spill = 0;
    size_t next_fetch = 0;
    std::vector<std::pair<ScheduledCopy*, double>> under_way;
    const auto start_at = [&](int32_t step, const std::vector<ScheduledCopy*>& list, size_t& next) {
      for (; next < list.size() && list[next]->start == step; ++next) {
        disk = std::max(now, disk) + seconds_of(*list[next]);
        under_way.emplace_back(list[next], disk);
      }
    };
    const auto wait_at = [&](int32_t step) {
      for (auto& [copy, done] : under_way) {
        if (copy->finish != step) continue;
        copy->waited_s = std::max(0.0, done - now);
        now = std::max(now, done);
      }
      std::erase_if(under_way, [&](const auto& one) { return one.first->finish == step; });
    };
    for (int32_t step = 0; step < steps_; ++step) {
      start_at(step, spills_, next_spill);
      wait_at(step);
      start_at(step, fetches_, next_fetch);
      wait_at(step);
      now += node_seconds(step);
    }
    return now;
  }

  const StepGraph& graph_;
  int64_t limit_bytes_;
  Schedule& schedule_;
  int32_t steps_;
  std::vector<double> begins_;  // of each step, and the end
  std::vector<ScheduledCopy*> spills_;
  std::vector<ScheduledCopy*> fetches_;
};

}  // namespace

void overlap_copies(const StepGraph& graph, int64_t limit_bytes, Schedule& schedule) {
  Overlap(graph, limit_bytes, schedule).run();
}

}  // namespace plimsoll::plan
