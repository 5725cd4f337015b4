// Memory of the card: ranges, handles, mappings.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "tests/device/stand_in/world.h"

using namespace plimsoll::stand_in;

namespace {

size_t used(const World& w, int device) {
  size_t bytes = w.settings.others_bytes;
  if (w.retained[static_cast<size_t>(device)] > 0) bytes += w.settings.context_bytes;
  for (const auto& [id, handle] : w.handles) {
    if (handle.device == device) bytes += handle.bytes;
  }
  for (const auto& [at, allocation] : w.allocations) {
    if (allocation.device == device) bytes += allocation.bytes;
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

extern "C" {

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
  if (!is_there(w, reinterpret_cast<const char*>(from), bytes)) return kInvalidValue;
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return kSuccess;
}

}  // extern "C"
