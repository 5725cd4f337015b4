#include "tests/device/stand_in/world.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace plimsoll::stand_in {
namespace {

void touch(World& w, const Work& work) {
  if (!is_mapped(w, work.at, work.bytes)) {
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

bool runnable(const Stream& stream) {
  if (stream.queue.empty()) return false;
  const Work& work = stream.queue.front();
  return work.kind != Work::Kind::wait || *work.mark;
}

void run_one(World& w, Stream& stream) {
  const Work work = stream.queue.front();
  stream.queue.pop_front();
  ++w.counts.executed;
  if (work.kind == Work::Kind::record) {
    *work.mark = true;
  } else if (work.kind != Work::Kind::wait) {
    touch(w, work);
  }
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
    if (stream.capturing) return true;
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

bool step(World& w) {
  std::vector<Stream*> ready;
  for (auto& [handle, stream] : w.streams) {
    if (runnable(stream)) ready.push_back(&stream);
  }
  if (ready.empty()) return false;
  run_one(w, *ready[w.random() % ready.size()]);
  return true;
}

}  // namespace plimsoll::stand_in
