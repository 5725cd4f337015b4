// What the stand-in's functions share: one card's memory, streams, events, and what is to fail. Guarded by its mutex.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "plimsoll/device/cuda/compute_api.h"
#include "plimsoll/device/cuda/driver_api.h"
#include "tests/device/stand_in/stand_in.h"

namespace plimsoll::stand_in {

using namespace plimsoll::cuda;

inline constexpr Result kInvalidValue = 1;
inline constexpr Result kInvalidContext = 201;
inline constexpr Result kInvalidHandle = 400;
inline constexpr Result kLaunchTimeout = 702;
inline constexpr Result kNotSupported = 801;
inline constexpr Result kCaptureUnsupported = 900;
inline constexpr Result kCaptureUnjoined = 904;
inline constexpr Result kCaptureIsolation = 905;
inline constexpr Result kCapturedEvent = 907;
inline constexpr Result kUnknown = 999;

using Mark = std::shared_ptr<bool>;  // one recording of an event: whether the stream has come there

struct Event {
  Mark latest = std::make_shared<bool>(true);
  bool captured = false;  // the latest recording is one of a graph's
};

struct World;

// Work of another kind: a copy, a collective.
struct Call {
  virtual ~Call() = default;
  virtual bool is_ready(World& /*w*/) { return true; }
  virtual void run(World& w) = 0;
  virtual std::shared_ptr<Call> again() const = 0;  // the same, for another launch of its graph
};

struct Work {
  enum class Kind : uint8_t { fill, check, record, wait, call } kind = Kind::fill;
  char* at = nullptr;
  size_t bytes = 0;
  uint64_t value = 0;               // of a fill or check
  Mark mark = {};                   // of a record or wait
  std::shared_ptr<Call> call = {};  // of a call
};

// What streams put into a graph while they capture.
struct Capture {
  struct Node {
    void* stream = nullptr;
    Work work;
  };
  void* origin = nullptr;
  std::vector<Node> nodes;
  std::map<void*, size_t> last;                       // place behind the last node of a stream
  std::map<void*, size_t> joined;                     // up to there the origin waits for it
  std::map<Mark, std::pair<void*, size_t>> recorded;  // marks of events: their stream, and the place behind them
};

// A graph that can be launched. Streams beside the one that it is launched on are its own.
struct Exec {
  std::shared_ptr<const Capture> graph;
  std::map<void*, void*> streams;
};

struct Stream {
  std::deque<Work> queue;
  bool capturing = false;
  std::thread::id only_of = {};  // the thread that alone may not make prohibited calls meanwhile; none: no thread may
  std::shared_ptr<Capture> capture;  // where the settings say that captures make graphs
  bool is_hidden = false;            // of a graph
};

struct Allocation {
  int device = 0;
  size_t bytes = 0;
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
  std::condition_variable changed;  // work was put, or run
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
  std::map<DevicePointer, Allocation> allocations;
  std::map<void*, std::shared_ptr<const Capture>> graphs;
  std::map<void*, Exec> execs;
  int64_t launches = 0;
};

World& world();

inline thread_local int current_device = -1;
inline thread_local int capture_mode = 0;

using Guard = std::unique_lock<std::mutex>;

// Whether this call is the one that is to fail.
bool fails(World& w);

// Whether a capture forbids calls that wait or allocate.
bool prohibited(const World& w);

bool is_mapped(const World& w, const char* at, size_t bytes);
// Mapped, or none of the card's ranges.
bool is_there(const World& w, const char* at, size_t bytes);

// Puts work on a stream, or into the graph that it captures. kSuccess, or why not.
Result put(World& w, void* stream, const Work& work);

// One piece of work of a random stream; false when nothing can run.
bool step(World& w);

// Runs work until the stream has none; where that waits for another thread, until that has brought it on.
Result finish(World& w, Guard& guard, const Stream& stream);

}  // namespace plimsoll::stand_in
