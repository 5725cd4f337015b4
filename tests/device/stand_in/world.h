// What the stand-in's functions share: one card's memory, streams, events, and what is to fail. Guarded by its mutex.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "plimsoll/device/cuda/driver_api.h"
#include "tests/device/stand_in/stand_in.h"

namespace plimsoll::stand_in {

using namespace plimsoll::cuda;

inline constexpr Result kInvalidValue = 1;
inline constexpr Result kInvalidContext = 201;
inline constexpr Result kInvalidHandle = 400;
inline constexpr Result kCaptureUnsupported = 900;
inline constexpr Result kUnknown = 999;

using Mark = std::shared_ptr<bool>;  // one recording of an event: whether the stream has come there

struct Event {
  Mark latest = std::make_shared<bool>(true);
};

struct Work {
  enum class Kind : uint8_t { fill, check, record, wait } kind = Kind::fill;
  char* at = nullptr;
  size_t bytes = 0;
  uint64_t value = 0;  // of a fill or check
  Mark mark;           // of a record or wait
};

struct Stream {
  std::deque<Work> queue;
  bool capturing = false;
};

struct Handle {
  int device = 0;
  size_t bytes = 0;
  off_t offset = 0;
  int mappings = 0;
  bool released = false;
};

struct Mapping {
  size_t bytes = 0;
  AllocationHandle handle = 0;
  bool accessible = false;
};

struct World {
  std::mutex mutex;
  StandInSettings settings;
  StandInCounts counts;
  std::mt19937_64 random{1};
  int64_t calls = 0;
  int64_t fail_at = 0;
  int memory = -1;
  off_t memory_end = 0;
  std::map<size_t, std::vector<off_t>> free_memory;  // by size
  std::map<AllocationHandle, Handle> handles;
  AllocationHandle next_handle = 1;
  std::map<DevicePointer, Mapping> mappings;
  std::map<DevicePointer, size_t> ranges;
  std::map<void*, Stream> streams;
  std::map<EventHandle, Event> events;
  uintptr_t next_event = 1;
  std::vector<int> retained;
};

World& world();

inline thread_local int current_device = -1;
inline thread_local int capture_mode = 0;

using Guard = std::lock_guard<std::mutex>;

// Whether this call is the one that is to fail.
bool fails(World& w);

// Whether a capture forbids calls that wait or allocate.
bool prohibited(const World& w);

bool is_mapped(const World& w, const char* at, size_t bytes);

// One piece of work of a random stream; false when nothing can run.
bool step(World& w);

}  // namespace plimsoll::stand_in
