#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "plimsoll/device/cuda/driver_api.h"
#include "tests/device/stand_in/stand_in.h"

using namespace plimsoll::cuda;

namespace {

constexpr Result kInvalidValue = 1;
constexpr Result kInvalidContext = 201;
constexpr Result kInvalidHandle = 400;
constexpr Result kCaptureUnsupported = 900;
constexpr Result kUnknown = 999;

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

thread_local int current_device = -1;
thread_local int capture_mode = 0;

using Guard = std::lock_guard<std::mutex>;

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

// One piece of work of a random stream; false when nothing can run.
bool step(World& w) {
  std::vector<Stream*> ready;
  for (auto& [handle, stream] : w.streams) {
    if (runnable(stream)) ready.push_back(&stream);
  }
  if (ready.empty()) return false;
  run_one(w, *ready[w.random() % ready.size()]);
  return true;
}

void put(void* stream, const Work& work) {
  World& w = world();
  const Guard guard(w.mutex);
  w.streams[stream].queue.push_back(work);
}

size_t used(const World& w, int device) {
  size_t bytes = w.settings.others_bytes;
  if (w.retained[static_cast<size_t>(device)] > 0) bytes += w.settings.context_bytes;
  for (const auto& [id, handle] : w.handles) {
    if (handle.device == device) bytes += handle.bytes;
  }
  return bytes;
}

void drop_if_unused(World& w, AllocationHandle id) {
  const auto found = w.handles.find(id);
  if (!found->second.released || found->second.mappings > 0) return;
  const Handle& handle = found->second;
  w.free_memory[handle.bytes].push_back(handle.offset);
  w.handles.erase(found);
}

}  // namespace

void stand_in_reset(const StandInSettings* settings) {
  World& w = world();
  const Guard guard(w.mutex);
  w.settings = *settings;
  w.random.seed(settings->seed);
  w.counts = {};
  w.calls = w.fail_at = 0;
  for (auto& [handle, stream] : w.streams) stream = {};
}

void stand_in_fail_at(int64_t n) {
  World& w = world();
  const Guard guard(w.mutex);
  w.fail_at = n == 0 ? 0 : w.calls + n;
}

int64_t stand_in_calls() {
  World& w = world();
  const Guard guard(w.mutex);
  return w.calls;
}

void stand_in_fill(void* stream, void* at, size_t bytes, uint64_t value) {
  put(stream, {Work::Kind::fill, static_cast<char*>(at), bytes, value, {}});
}

void stand_in_check(void* stream, const void* at, size_t bytes, uint64_t value) {
  put(stream, {Work::Kind::check, const_cast<char*>(static_cast<const char*>(at)), bytes, value, {}});
}

StandInCounts stand_in_counts() {
  World& w = world();
  const Guard guard(w.mutex);
  StandInCounts counts = w.counts;
  counts.handles = static_cast<int64_t>(w.handles.size());
  counts.mappings = static_cast<int64_t>(w.mappings.size());
  counts.ranges = static_cast<int64_t>(w.ranges.size());
  counts.events = static_cast<int64_t>(w.events.size());
  return counts;
}

extern "C" {

Result cuInit(unsigned) { return kSuccess; }

Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}

Result cuGetErrorName(Result error, const char** text) {
  *text = error == kErrorOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR";
  return kSuccess;
}

Result cuGetErrorString(Result error, const char** text) {
  *text = error == kErrorOutOfMemory ? "out of memory" : "an error of the stand-in";
  return kSuccess;
}

Result cuDeviceGetCount(int* count) {
  *count = world().settings.devices;
  return kSuccess;
}

Result cuDeviceGetName(char* name, int length, DeviceOrdinal) {
  std::strncpy(name, "Stand-in", static_cast<size_t>(length));
  return kSuccess;
}

Result cuDeviceGetPCIBusId(char* text, int length, DeviceOrdinal device) {
  if (length < 13) return kInvalidValue;
  std::memcpy(text, "0000:1B:00.0", 13);
  text[11] = static_cast<char>('0' + device);
  return kSuccess;
}

Result cuDeviceTotalMem_v2(size_t* bytes, DeviceOrdinal) {
  *bytes = world().settings.card_bytes;
  return kSuccess;
}

Result cuDevicePrimaryCtxRetain(Context* context, DeviceOrdinal device) {
  World& w = world();
  const Guard guard(w.mutex);
  if (fails(w)) return kUnknown;
  ++w.retained[static_cast<size_t>(device)];
  *context = reinterpret_cast<Context>(static_cast<intptr_t>(device + 1));
  return kSuccess;
}

Result cuDevicePrimaryCtxRelease_v2(DeviceOrdinal device) {
  World& w = world();
  const Guard guard(w.mutex);
  --w.retained[static_cast<size_t>(device)];
  return kSuccess;
}

Result cuCtxGetCurrent(Context* context) {
  *context = reinterpret_cast<Context>(static_cast<intptr_t>(current_device + 1));
  return kSuccess;
}

Result cuCtxSetCurrent(Context context) {
  current_device = static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1;
  return kSuccess;
}

Result cuCtxGetDevice(DeviceOrdinal* device) {
  *device = current_device;
  return current_device < 0 ? kInvalidContext : kSuccess;
}

Result cuCtxSynchronize() {
  World& w = world();
  const Guard guard(w.mutex);
  if (current_device < 0) return kInvalidContext;
  for (const auto& [handle, stream] : w.streams) {
    if (stream.capturing) return kCaptureUnsupported;
  }
  while (step(w)) {
  }
  return kSuccess;
}

Result cuMemGetInfo_v2(size_t* free, size_t* total) {
  World& w = world();
  const Guard guard(w.mutex);
  if (current_device < 0) return kInvalidContext;
  *total = w.settings.card_bytes;
  *free = w.settings.card_bytes - used(w, current_device);
  return kSuccess;
}

Result cuMemGetAllocationGranularity(size_t* bytes, const AllocationProperties*, unsigned) {
  *bytes = world().settings.granularity;
  return kSuccess;
}

Result cuMemAddressReserve(DevicePointer* range, size_t bytes, size_t alignment, DevicePointer, unsigned long long) {
  World& w = world();
  const Guard guard(w.mutex);
  if (fails(w)) return kErrorOutOfMemory;
  if (bytes == 0 || bytes % w.settings.granularity != 0) return kInvalidValue;
  void* const raw = mmap(nullptr, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return kErrorOutOfMemory;
  const auto start = reinterpret_cast<DevicePointer>(raw);
  *range = (start + alignment - 1) / alignment * alignment;
  if (*range > start) munmap(raw, *range - start);
  munmap(reinterpret_cast<void*>(*range + bytes), start + alignment - *range);
  w.ranges[*range] = bytes;
  return kSuccess;
}

Result cuMemAddressFree(DevicePointer range, size_t bytes) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto found = w.ranges.find(range);
  if (found == w.ranges.end() || found->second != bytes) return kInvalidValue;
  const auto mapped = w.mappings.lower_bound(range);
  if (mapped != w.mappings.end() && mapped->first < range + bytes) return kInvalidValue;
  munmap(reinterpret_cast<void*>(range), bytes);
  w.ranges.erase(found);
  return kSuccess;
}

Result cuMemCreate(AllocationHandle* handle, size_t bytes, const AllocationProperties* properties, unsigned long long) {
  World& w = world();
  const Guard guard(w.mutex);
  if (prohibited(w)) return kCaptureUnsupported;
  if (bytes == 0 || bytes % w.settings.granularity != 0) return kInvalidValue;
  const int device = properties->location.id;
  if (fails(w) || used(w, device) + bytes > w.settings.card_bytes) return kErrorOutOfMemory;
  Handle made{.device = device, .bytes = bytes};
  auto& spare = w.free_memory[bytes];
  if (!spare.empty()) {
    made.offset = spare.back();
    spare.pop_back();
  } else {
    made.offset = w.memory_end;
    w.memory_end += static_cast<off_t>(bytes);
    if (ftruncate(w.memory, w.memory_end) != 0) return kErrorOutOfMemory;
  }
  *handle = w.next_handle++;
  w.handles[*handle] = made;
  return kSuccess;
}

Result cuMemRelease(AllocationHandle handle) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto found = w.handles.find(handle);
  if (found == w.handles.end() || found->second.released) return kInvalidValue;
  found->second.released = true;
  drop_if_unused(w, handle);
  return kSuccess;
}

Result cuMemMap(DevicePointer at, size_t bytes, size_t offset, AllocationHandle id, unsigned long long) {
  World& w = world();
  const Guard guard(w.mutex);
  if (prohibited(w)) return kCaptureUnsupported;
  if (fails(w)) return kUnknown;
  const auto handle = w.handles.find(id);
  if (handle == w.handles.end() || handle->second.released || offset != 0 || handle->second.bytes != bytes) {
    return kInvalidValue;
  }
  const auto next = w.mappings.lower_bound(at);
  if (next != w.mappings.end() && next->first < at + bytes) return kInvalidValue;
  if (next != w.mappings.begin() && std::prev(next)->first + std::prev(next)->second.bytes > at) return kInvalidValue;
  void* const mapped =
      mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, w.memory, handle->second.offset);
  if (mapped == MAP_FAILED) return kErrorOutOfMemory;
  ++handle->second.mappings;
  w.mappings[at] = {bytes, id, false};
  return kSuccess;
}

Result cuMemSetAccess(DevicePointer at, size_t bytes, const AccessDescription* access, size_t count) {
  World& w = world();
  const Guard guard(w.mutex);
  if (fails(w)) return kUnknown;
  if (count == 0 || access[0].flags != kAccessReadWrite) return kInvalidValue;
  const DevicePointer end = at + bytes;
  while (at < end) {
    const auto found = w.mappings.find(at);
    if (found == w.mappings.end()) return kInvalidValue;
    found->second.accessible = true;
    mprotect(reinterpret_cast<void*>(at), found->second.bytes, PROT_READ | PROT_WRITE);
    at += found->second.bytes;
  }
  return kSuccess;
}

Result cuMemUnmap(DevicePointer at, size_t bytes) {
  World& w = world();
  const Guard guard(w.mutex);
  if (prohibited(w)) return kCaptureUnsupported;
  const DevicePointer end = at + bytes;
  for (DevicePointer part = at; part < end;) {
    const auto found = w.mappings.find(part);
    if (found == w.mappings.end() || part + found->second.bytes > end) return kInvalidValue;
    part += found->second.bytes;
  }
  while (at < end) {
    const auto found = w.mappings.find(at);
    const Mapping gone = found->second;
    w.mappings.erase(found);
    mmap(reinterpret_cast<void*>(at), gone.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
         -1, 0);
    --w.handles[gone.handle].mappings;
    drop_if_unused(w, gone.handle);
    at += gone.bytes;
  }
  return kSuccess;
}

Result cuMemsetD32Async(DevicePointer at, unsigned value, size_t count, StreamHandle stream) {
  stand_in_fill(stream, reinterpret_cast<void*>(at), count * 4, uint64_t{value} << 32 | value);
  return kSuccess;
}

Result cuMemcpyDtoH_v2(void* to, DevicePointer from, size_t bytes) {
  World& w = world();
  const Guard guard(w.mutex);
  while (step(w)) {
  }
  if (!is_mapped(w, reinterpret_cast<const char*>(from), bytes)) return kInvalidValue;
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return kSuccess;
}

Result cuStreamCreate(StreamHandle* stream, unsigned) {
  World& w = world();
  const Guard guard(w.mutex);
  if (fails(w)) return kErrorOutOfMemory;
  *stream = reinterpret_cast<StreamHandle>(new char);
  w.streams[*stream];
  return kSuccess;
}

Result cuStreamDestroy_v2(StreamHandle stream) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto found = w.streams.find(stream);
  if (stream == nullptr || found == w.streams.end()) return kInvalidHandle;
  while (!found->second.queue.empty() && step(w)) {
  }
  w.streams.erase(found);
  delete reinterpret_cast<char*>(stream);
  return kSuccess;
}

Result cuStreamSynchronize(StreamHandle stream) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto found = w.streams.find(stream);
  if (found == w.streams.end()) return kInvalidHandle;
  while (!found->second.queue.empty() && step(w)) {
  }
  return kSuccess;
}

Result cuStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto found = w.streams.find(stream);
  const auto known = w.events.find(event);
  if (found == w.streams.end() || known == w.events.end()) return kInvalidHandle;
  if (found->second.capturing) return kCaptureUnsupported;
  if (fails(w)) return kUnknown;
  ++w.counts.waits;
  found->second.queue.push_back({Work::Kind::wait, nullptr, 0, 0, known->second.latest});
  return kSuccess;
}

Result cuStreamIsCapturing(StreamHandle stream, int* status) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto found = w.streams.find(stream);
  if (found == w.streams.end()) return kInvalidHandle;
  *status = found->second.capturing ? 1 : kCaptureNone;
  return kSuccess;
}

Result cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(capture_mode, *mode);
  return kSuccess;
}

Result cuStreamBeginCapture_v2(StreamHandle stream, int) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto found = w.streams.find(stream);
  if (found == w.streams.end() || stream == nullptr) return kInvalidHandle;
  found->second.capturing = true;
  return kSuccess;
}

Result cuStreamEndCapture(StreamHandle stream, void** graph) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto found = w.streams.find(stream);
  if (found == w.streams.end() || !found->second.capturing) return kInvalidHandle;
  found->second.capturing = false;
  *graph = nullptr;
  return kSuccess;
}

Result cuEventCreate(EventHandle* event, unsigned) {
  World& w = world();
  const Guard guard(w.mutex);
  if (fails(w)) return kErrorOutOfMemory;
  *event = reinterpret_cast<EventHandle>(w.next_event++);
  w.events[*event];
  return kSuccess;
}

Result cuEventDestroy_v2(EventHandle event) {
  World& w = world();
  const Guard guard(w.mutex);
  return w.events.erase(event) == 1 ? kSuccess : kInvalidHandle;
}

Result cuEventRecord(EventHandle event, StreamHandle stream) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto known = w.events.find(event);
  const auto found = w.streams.find(stream);
  if (known == w.events.end() || found == w.streams.end()) return kInvalidHandle;
  if (found->second.capturing) return kCaptureUnsupported;
  if (fails(w)) return kUnknown;
  known->second.latest = std::make_shared<bool>(false);
  found->second.queue.push_back({Work::Kind::record, nullptr, 0, 0, known->second.latest});
  return kSuccess;
}

Result cuEventQuery(EventHandle event) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto known = w.events.find(event);
  if (known == w.events.end()) return kInvalidHandle;
  step(w);
  return *known->second.latest ? kSuccess : kErrorNotReady;
}

Result cuEventSynchronize(EventHandle event) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto known = w.events.find(event);
  if (known == w.events.end()) return kInvalidHandle;
  while (!*known->second.latest && step(w)) {
  }
  return kSuccess;
}

}  // extern "C"
