// What the preload library knows of the process it is in. Made at the first call, never destroyed: frees come until the
// very end. After a fork the child has no pools; CUDA itself does not work in it if the parent used it.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "plimsoll/base/oom.h"
#include "preload/device_pool.h"
#include "preload/runtime_api.h"

namespace plimsoll::preload {

class ProcessState {
 public:
  static constexpr int kMostDevices = 32;

  static ProcessState& get() {
    static ProcessState* const state = new ProcessState;
    return *state;
  }
  // Null in a process that never called CUDA, as most that a shell starts.
  static ProcessState* existing() { return existing_.load(); }

  const cuda::Driver& driver() const { return driver_; }

  // Of the device that is current in this thread, made if need be; null where there is none, and then the runtime
  // serves the request. Throws what making one throws.
  DevicePool* current_pool();
  // Those that were made.
  std::span<DevicePool* const> pools() const {
    return {pools_.data(), static_cast<size_t>(pool_count_.load(std::memory_order_acquire))};
  }
  // The pool that stands for a device's default memory pool; null for a handle of another kind.
  DevicePool* pool_of(MemPoolHandle handle);

  bool any_capture() const { return captures_.load(std::memory_order_relaxed) > 0; }
  bool is_capturing(StreamHandle stream) const;
  void capture_began() { captures_.fetch_add(1); }
  void capture_ended() { captures_.fetch_sub(1); }

  // This is a forked child of a process that had pools: its pointers are the parent's, and nothing can be done here.
  bool lost_in_fork() const { return pools_before_fork_ > 0; }

  // Makes the context of a pool's device current in this thread while it lives, unless it is already.
  class OnDevice {
   public:
    OnDevice(ProcessState& state, const DevicePool& pool);

   private:
    std::optional<cuda::CurrentDevice> device_;
  };

  void report_oom(const OomReport& report);
  void say_once(const std::string& text);  // on standard error and in the folder of reports
  void write_traces() const;               // at the end, when allocations are recorded

 private:
  ProcessState();
  DevicePool* make_pool(int device);
  static void bind_thread(int device);
  void after_fork();
  std::string path(const std::string& name) const;  // in the folder of reports, with the process's number

  static inline std::atomic<ProcessState*> existing_ = nullptr;

  Settings settings_;
  cuda::Driver driver_;
  std::atomic<bool> usable_ = false;
  std::mutex mutex_;  // guards making pools and writing reports
  std::array<std::atomic<DevicePool*>, kMostDevices> by_device_{};
  std::array<MemPoolHandle, kMostDevices> handles_{};  // by place in pools_
  std::array<DevicePool*, kMostDevices> pools_{};
  std::atomic<int> pool_count_ = 0;
  int pools_before_fork_ = 0;
  int device_count_ = 0;
  std::atomic<int> captures_ = 0;
  int oom_reports_ = 0;
  std::string said_;
};

}  // namespace plimsoll::preload
