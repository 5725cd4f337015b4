#include "tests/device/stand_in/world.h"

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

namespace plimsoll::stand_in {
namespace {

// Of cuMemAlloc.
bool is_allocated(const World& w, const char* at, size_t bytes) {
  const auto address = reinterpret_cast<DevicePointer>(at);
  const auto next = w.allocations.upper_bound(address);
  return next != w.allocations.begin() && address + bytes <= std::prev(next)->first + std::prev(next)->second.bytes;
}

void touch(World& w, const Work& work) {
  if (!is_mapped(w, work.at, work.bytes) && !is_allocated(w, work.at, work.bytes)) {
    ++w.counts.faults;
    return;
  }
  for (size_t i = 0; i + 8 <= work.bytes; i += 8) {
    if (work.kind == Work::Kind::fill) {
      std::memcpy(work.at + i, &work.value, 8);
    } else if (std::memcmp(work.at + i, &work.value, 8) != 0) {
      ++w.counts.mismatches;
    }
  }
}

bool runnable(World& w, const Stream& stream) {
  if (stream.queue.empty()) return false;
  const Work& work = stream.queue.front();
  if (work.kind == Work::Kind::call) return work.call->is_ready(w);
  return work.kind != Work::Kind::wait || *work.mark;
}

void run_one(World& w, Stream& stream) {
  const Work work = stream.queue.front();
  stream.queue.pop_front();
  ++w.counts.executed;
  if (work.kind == Work::Kind::record) {
    *work.mark = true;
  } else if (work.kind == Work::Kind::call) {
    work.call->run(w);
  } else if (work.kind != Work::Kind::wait) {
    touch(w, work);
  }
  w.changed.notify_all();
}

}  // namespace

World& world() {
  static World* const made = [] {
    auto* const fresh = new World;
    fresh->memory = memfd_create("stand_in", MFD_CLOEXEC);
    fresh->retained.assign(8, 0);
    fresh->streams[nullptr];
    return fresh;
  }();
  return *made;
}

bool fails(World& w) { return ++w.calls == w.fail_at; }

bool prohibited(const World& w) {
  if (capture_mode == kCaptureRelaxed) return false;
  for (const auto& [handle, stream] : w.streams) {
    const bool is_of_another = stream.only_of != std::thread::id() && stream.only_of != std::this_thread::get_id();
    if (stream.capturing && !is_of_another) return true;
  }
  return false;
}

bool is_mapped(const World& w, const char* at, size_t bytes) {
  auto address = reinterpret_cast<DevicePointer>(at);
  const DevicePointer end = address + bytes;
  while (address < end) {
    auto found = w.mappings.upper_bound(address);
    if (found == w.mappings.begin()) return false;
    --found;
    if (address >= found->first + found->second.bytes || !found->second.accessible) return false;
    address = found->first + found->second.bytes;
  }
  return true;
}

bool is_there(const World& w, const char* at, size_t bytes) {
  const auto address = reinterpret_cast<DevicePointer>(at);
  auto range = w.ranges.upper_bound(address);
  if (range == w.ranges.begin()) return true;
  --range;
  return address >= range->first + range->second || is_mapped(w, at, bytes);
}

Result put(World& w, void* stream, const Work& work) {
  const auto found = w.streams.find(stream);
  if (found == w.streams.end()) return kInvalidHandle;
  if (Capture* capture = found->second.capture.get()) {
    capture->nodes.push_back({stream, work});
    capture->last[stream] = capture->nodes.size();
    return kSuccess;
  }
  if (found->second.capturing) return kCaptureUnsupported;
  found->second.queue.push_back(work);
  w.changed.notify_all();
  return kSuccess;
}

bool step(World& w) {
  std::vector<Stream*> ready;
  for (auto& [handle, stream] : w.streams) {
    if (runnable(w, stream)) ready.push_back(&stream);
  }
  if (ready.empty()) return false;
  run_one(w, *ready[w.random() % ready.size()]);
  return true;
}

Result finish(World& w, Guard& guard, const Stream& stream) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(w.settings.timeout_s);
  while (!stream.queue.empty()) {
    if (step(w)) continue;
    if (std::chrono::steady_clock::now() > end) return kLaunchTimeout;
    w.changed.wait_for(guard, std::chrono::milliseconds(1));
  }
  return kSuccess;
}

}  // namespace plimsoll::stand_in
