// The functions that a program meets instead of the CUDA runtime's. Memory that is asked for comes from our pool;
// whatever the pool cannot do (captures, pools that the program made itself, pointers that are not ours) goes on to the
// runtime.
#include "plimsoll/base/oom.h"
#include "preload/process_state.h"

using plimsoll::preload::DevicePool;
using plimsoll::preload::kInvalidValue;
using plimsoll::preload::kMemoryAllocation;
using plimsoll::preload::kRuntimeSuccess;
using plimsoll::preload::MemPoolHandle;
using plimsoll::preload::PoolAccess;
using plimsoll::preload::ProcessState;
using plimsoll::preload::Runtime;
using plimsoll::preload::RuntimeError;
using plimsoll::preload::StreamHandle;

namespace {

const StreamHandle kLegacyStream = reinterpret_cast<StreamHandle>(1);     // another name of stream 0
const StreamHandle kPerThreadStream = reinterpret_cast<StreamHandle>(2);  // another one in each thread

StreamHandle normal(StreamHandle stream) { return stream == kLegacyStream ? nullptr : stream; }

// Runs `work`, which returns an error of the runtime, and turns exceptions into one.
template <typename Work>
RuntimeError guarded(ProcessState& state, const Work& work) {
  try {
    return work();
  } catch (const plimsoll::ResourceExhausted& error) {
    state.report_oom(error.report());
    return kMemoryAllocation;
  } catch (const plimsoll::cuda::DriverError& error) {
    state.say_once(error.what());
    return error.result();
  } catch (const std::exception& error) {
    state.say_once(error.what());
    return kMemoryAllocation;
  }
}

RuntimeError allocate(void** pointer, size_t bytes, StreamHandle stream) {
  ProcessState& state = ProcessState::get();
  return guarded(state, [&] {
    DevicePool* const pool = state.current_pool();
    if (pool == nullptr) return Runtime::malloc_async()(pointer, bytes, stream);
    *pointer = pool->allocate(bytes, normal(stream));
    return kRuntimeSuccess;
  });
}

// A block that was freed on the per-thread stream: no other thread can name that stream, so its work is awaited.
RuntimeError free_on_thread_stream(ProcessState& state, DevicePool& pool, void* pointer) {
  state.driver().check(state.driver().stream_synchronize(kPerThreadStream), "cuStreamSynchronize");
  pool.free(pointer, nullptr);
  return kRuntimeSuccess;
}

}  // namespace

extern "C" {

RuntimeError cudaMallocAsync(void** pointer, size_t bytes, StreamHandle stream) {
  ProcessState& state = ProcessState::get();
  if (pointer == nullptr || bytes == 0 || stream == kPerThreadStream || state.is_capturing(stream)) {
    return Runtime::malloc_async()(pointer, bytes, stream);
  }
  return allocate(pointer, bytes, stream);
}

RuntimeError cudaMallocFromPoolAsync(void** pointer, size_t bytes, MemPoolHandle pool, StreamHandle stream) {
  if (ProcessState::get().pool_of(pool) == nullptr) {
    return Runtime::malloc_from_pool_async()(pointer, bytes, pool, stream);
  }
  return cudaMallocAsync(pointer, bytes, stream);
}

RuntimeError cudaMalloc(void** pointer, size_t bytes) {
  if (pointer == nullptr || bytes == 0 || ProcessState::get().is_capturing(nullptr)) {
    return Runtime::malloc()(pointer, bytes);
  }
  return allocate(pointer, bytes, nullptr);
}

RuntimeError cudaFreeAsync(void* pointer, StreamHandle stream) {
  ProcessState& state = ProcessState::get();
  if (state.lost_in_fork()) return kRuntimeSuccess;
  return guarded(state, [&] {
    const StreamHandle used = normal(stream);
    const bool capturing = state.is_capturing(stream);
    for (DevicePool* const pool : state.pools()) {
      const ProcessState::OnDevice on(state, *pool);
      if (stream == kPerThreadStream) {
        if (pool->owns(pointer)) return free_on_thread_stream(state, *pool, pointer);
      } else if (capturing ? pool->free_later(pointer, used) : pool->free(pointer, &used)) {
        return kRuntimeSuccess;
      }
    }
    return Runtime::free_async()(pointer, stream);
  });
}

RuntimeError cudaFree(void* pointer) {
  ProcessState& state = ProcessState::get();
  if (state.lost_in_fork()) return kRuntimeSuccess;
  return guarded(state, [&] {
    for (DevicePool* const pool : state.pools()) {
      if (!pool->owns(pointer)) continue;
      const ProcessState::OnDevice on(state, *pool);
      state.driver().check(state.driver().ctx_synchronize(), "cudaFree: cuCtxSynchronize");
      pool->free(pointer, nullptr);
      return kRuntimeSuccess;
    }
    return Runtime::free()(pointer);
  });
}

RuntimeError cudaMemGetInfo(size_t* free, size_t* total) {
  ProcessState& state = ProcessState::get();
  if (free == nullptr || total == nullptr) return kInvalidValue;
  return guarded(state, [&] {
    DevicePool* const pool = state.current_pool();
    if (pool == nullptr) return Runtime::mem_get_info()(free, total);
    const DevicePool::MemoryInfo memory_info = pool->memory_info();
    *free = static_cast<size_t>(memory_info.free_bytes);
    *total = static_cast<size_t>(memory_info.total_bytes);
    return kRuntimeSuccess;
  });
}

RuntimeError cudaMemPoolGetAttribute(MemPoolHandle handle, int attribute, void* value) {
  DevicePool* const pool = ProcessState::get().pool_of(handle);
  if (pool == nullptr || value == nullptr) return Runtime::pool_get_attribute()(handle, attribute, value);
  auto* const bytes = static_cast<uint64_t*>(value);
  switch (attribute) {
    case plimsoll::preload::kReservedCurrent:
      *bytes = static_cast<uint64_t>(pool->stats().reserved_bytes);
      break;
    case plimsoll::preload::kReservedHigh:
      *bytes = static_cast<uint64_t>(pool->reserved_peak_bytes());
      break;
    case plimsoll::preload::kUsedCurrent:
      *bytes = static_cast<uint64_t>(pool->stats().live_bytes);
      break;
    case plimsoll::preload::kUsedHigh:
      *bytes = static_cast<uint64_t>(pool->used_peak_bytes());
      break;
    default:
      return Runtime::pool_get_attribute()(handle, attribute, value);
  }
  return kRuntimeSuccess;
}

RuntimeError cudaMemPoolSetAttribute(MemPoolHandle handle, int attribute, void* value) {
  DevicePool* const pool = ProcessState::get().pool_of(handle);
  if (pool == nullptr || value == nullptr) return Runtime::pool_set_attribute()(handle, attribute, value);
  switch (attribute) {
    case plimsoll::preload::kReservedHigh:
      pool->reset_reserved_peak();
      break;
    case plimsoll::preload::kUsedHigh:
      pool->reset_used_peak();
      break;
    default:
      return Runtime::pool_set_attribute()(handle, attribute, value);
  }
  return kRuntimeSuccess;
}

RuntimeError cudaMemPoolSetAccess(MemPoolHandle handle, const PoolAccess* access, size_t count) {
  ProcessState& state = ProcessState::get();
  DevicePool* const pool = state.pool_of(handle);
  if (pool == nullptr || access == nullptr) return Runtime::pool_set_access()(handle, access, count);
  return guarded(state, [&] {
    const ProcessState::OnDevice on(state, *pool);
    for (size_t i = 0; i < count; ++i) {
      if (access[i].flags == plimsoll::cuda::kAccessReadWrite) pool->share_with(access[i].location_id);
    }
    return kRuntimeSuccess;
  });
}

RuntimeError cudaMemPoolTrimTo(MemPoolHandle handle, size_t keep_bytes) {
  ProcessState& state = ProcessState::get();
  DevicePool* const pool = state.pool_of(handle);
  if (pool == nullptr) return Runtime::pool_trim_to()(handle, keep_bytes);
  return guarded(state, [&] {
    const ProcessState::OnDevice on(state, *pool);
    if (pool->stats().reserved_bytes > static_cast<int64_t>(keep_bytes)) pool->trim();
    return kRuntimeSuccess;
  });
}

RuntimeError cudaStreamDestroy(StreamHandle stream) {
  ProcessState& state = ProcessState::get();
  return guarded(state, [&] {
    for (DevicePool* const pool : state.pools()) {
      const ProcessState::OnDevice on(state, *pool);
      pool->destroy_stream(stream);
    }
    return Runtime::stream_destroy()(stream);
  });
}

RuntimeError cudaStreamBeginCapture(StreamHandle stream, int mode) {
  ProcessState& state = ProcessState::get();
  return guarded(state, [&] {
    for (DevicePool* const pool : state.pools()) {
      const ProcessState::OnDevice on(state, *pool);
      pool->begin_capture(normal(stream));
    }
    const RuntimeError result = Runtime::begin_capture()(stream, mode);
    if (result == kRuntimeSuccess) {
      state.capture_began();
    } else {
      for (DevicePool* const pool : state.pools()) pool->end_capture(normal(stream));
    }
    return result;
  });
}

RuntimeError cudaStreamEndCapture(StreamHandle stream, void** graph) {
  ProcessState& state = ProcessState::get();
  return guarded(state, [&] {
    const RuntimeError result = Runtime::end_capture()(stream, graph);
    state.capture_ended();
    for (DevicePool* const pool : state.pools()) {
      const ProcessState::OnDevice on(state, *pool);
      pool->end_capture(normal(stream));
      if (!state.any_capture()) pool->free_deferred();
    }
    return result;
  });
}

RuntimeError cudaIpcGetMemHandle(void* handle, void* pointer) {
  ProcessState& state = ProcessState::get();
  for (DevicePool* const pool : state.pools()) {
    if (!pool->owns(pointer)) continue;
    state.say_once(
        "CUDA IPC was asked for a tensor of the pool, which cannot be shared between processes: run without --pool");
  }
  return Runtime::ipc_get_mem_handle()(handle, pointer);
}

}  // extern "C"
