#include "plimsoll/report/segment_history.h"

#include <algorithm>
#include <map>

namespace plimsoll::report {
namespace {

using explain::Action;

// No memory lies elsewhere: a recording may be corrupt.
bool is_sane(uint64_t address, int64_t bytes) {
  constexpr int64_t kMost = int64_t{1} << 60;
  return address <= uint64_t{kMost} && bytes > 0 && bytes <= kMost;
}

class Builder {
 public:
  explicit Builder(int32_t events) : events_(events) {}

  void add(int64_t address, int64_t bytes, int32_t at) {
    if (bytes > 0) open_[address] = {address, bytes, at, events_};
  }

  // What is given back may be a part of what was taken, or older than the recording.
  void remove(int64_t address, int64_t bytes, int32_t at) {
    const int64_t end = address + bytes;
    int64_t from = address;
    for (auto range = first_touching(address); range != open_.end() && range->first < end;) {
      const PageRange whole = range->second;
      const int64_t whole_end = whole.address + whole.bytes;
      range = open_.erase(range);
      if (whole.address > from) older(from, whole.address - from, at);
      const int64_t first = std::max(address, whole.address);
      close({first, std::min(end, whole_end) - first, whole.begin, at});
      from = whole_end;
      add(whole.address, address - whole.address, whole.begin);
      add(end, whole_end - end, whole.begin);
    }
    if (from < end) older(from, end - from, at);
  }

  // Parts of `[address, address + bytes)` that nothing took were there from the start.
  void finish(int64_t address, int64_t bytes) {
    int64_t from = address;
    for (auto range = first_touching(address); range != open_.end() && range->first < address + bytes; ++range) {
      if (range->first > from) older(from, range->first - from, events_);
      from = std::max(from, range->first + range->second.bytes);
    }
    if (from < address + bytes) older(from, address + bytes - from, events_);
  }

  std::vector<PageRange> take() {
    for (const auto& [address, range] : open_) done_.push_back(range);
    std::sort(done_.begin(), done_.end(), [](const PageRange& a, const PageRange& b) {
      return a.address != b.address ? a.address < b.address : a.begin < b.begin;
    });
    return std::move(done_);
  }

 private:
  std::map<int64_t, PageRange>::iterator first_touching(int64_t address) {
    auto range = open_.upper_bound(address);
    if (range == open_.begin()) return range;
    const auto before = std::prev(range);
    return before->first + before->second.bytes > address ? before : range;
  }
  void close(const PageRange& range) {
    if (range.end > range.begin) done_.push_back(range);
  }
  void older(int64_t address, int64_t bytes, int32_t end) { done_.push_back({address, bytes, 0, end}); }

  int32_t events_;
  std::map<int64_t, PageRange> open_;  // by address; no two overlap
  std::vector<PageRange> done_;
};

}  // namespace

std::vector<PageRange> segment_history(const explain::DeviceState& device) {
  Builder builder(static_cast<int32_t>(device.events.size()));
  for (size_t i = 0; i < device.events.size(); ++i) {
    const explain::SnapshotEvent& event = device.events[i];
    if (!is_sane(event.address, event.bytes)) continue;
    const auto address = static_cast<int64_t>(event.address);
    const auto at = static_cast<int32_t>(i);
    if (event.action == Action::segment_alloc || event.action == Action::segment_map) {
      builder.add(address, event.bytes, at);
    } else if (event.action == Action::segment_free || event.action == Action::segment_unmap) {
      builder.remove(address, event.bytes, at);
    }
  }
  for (const explain::Segment& segment : device.segments) {
    if (is_sane(segment.address, segment.bytes)) builder.finish(static_cast<int64_t>(segment.address), segment.bytes);
  }
  return builder.take();
}

}  // namespace plimsoll::report
