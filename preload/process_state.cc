#include "preload/process_state.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdio>

#include "plimsoll/base/file.h"
#include "plimsoll/trace/binary.h"

namespace plimsoll::preload {
namespace {

constexpr int kMostOomReports = 3;

}  // namespace

ProcessState::ProcessState() {
  pthread_atfork(nullptr, nullptr, [] { get().after_fork(); });
  try {
    settings_ = Settings::from_environment();
    driver_ = cuda::Driver::load(settings_.driver);
    device_count_ = driver_.device_count();
    usable_ = true;
  } catch (const std::exception& error) {
    say_once(fmt::format("{}; memory is the CUDA runtime's own", error.what()));
  }
  existing_ = this;
}

void ProcessState::after_fork() {
  pools_before_fork_ = pool_count_.load();
  if (pools_before_fork_ == 0) return;
  usable_ = false;
  pool_count_ = 0;
  for (auto& pool : by_device_) pool = nullptr;
}

// The runtime binds its context to a thread at the thread's first call; ours may be that call.
void ProcessState::bind_thread(int device) {
  thread_local int bound = -1;
  if (bound == device) return;
  Runtime::free()(nullptr);
  bound = device;
}

ProcessState::OnDevice::OnDevice(ProcessState& state, const DevicePool& pool) {
  int current = 0;
  if (state.device_count_ > 1) Runtime::get_device()(&current);
  if (current == pool.device()) {
    bind_thread(current);
  } else {
    device_.emplace(state.driver_, pool.device());
  }
}

DevicePool* ProcessState::current_pool() {
  if (!usable_.load(std::memory_order_relaxed)) return nullptr;
  int device = 0;
  if (device_count_ > 1) {
    if (Runtime::get_device()(&device) != kRuntimeSuccess) return nullptr;
  }
  if (device < 0 || device >= kMostDevices) return nullptr;
  bind_thread(device);
  DevicePool* const pool = by_device_[static_cast<size_t>(device)].load(std::memory_order_acquire);
  return pool != nullptr ? pool : make_pool(device);
}

DevicePool* ProcessState::make_pool(int device) {
  const std::lock_guard guard(mutex_);
  const auto index = static_cast<size_t>(device);
  if (DevicePool* const made = by_device_[index].load()) return made;
  MemPoolHandle handle = nullptr;
  if (Runtime::default_mem_pool()(&handle, device) != kRuntimeSuccess) return nullptr;
  auto* const pool = new DevicePool(driver_, device, settings_);
  const auto place = static_cast<size_t>(pool_count_.load());
  pools_[place] = pool;
  handles_[place] = handle;
  pool_count_.store(static_cast<int>(place) + 1, std::memory_order_release);
  by_device_[index].store(pool, std::memory_order_release);
  return pool;
}

DevicePool* ProcessState::pool_of(MemPoolHandle handle) {
  const auto find = [&]() -> DevicePool* {
    const auto count = static_cast<size_t>(pool_count_.load(std::memory_order_acquire));
    for (size_t i = 0; i < count; ++i) {
      if (handles_[i] == handle) return pools_[i];
    }
    return nullptr;
  };
  if (DevicePool* const known = find()) return known;
  if (!usable_ || handle == nullptr) return nullptr;
  try {
    current_pool();  // statistics may be asked for before the first allocation
  } catch (const std::exception& error) {
    say_once(error.what());
  }
  return find();
}

bool ProcessState::is_capturing(StreamHandle stream) const {
  if (!any_capture() || !usable_) return false;
  int status = cuda::kCaptureNone;
  return driver_.stream_is_capturing(stream, &status) == cuda::kSuccess && status != cuda::kCaptureNone;
}

std::string ProcessState::path(const std::string& name) const {
  return fmt::format("{}/{}", settings_.folder, fmt::format(fmt::runtime(name), getpid()));
}

void ProcessState::report_oom(const OomReport& report) {
  const std::lock_guard guard(mutex_);
  if (settings_.folder.empty() || oom_reports_++ >= kMostOomReports) return;
  try {
    write_file(path("pool_oom_{}_" + std::to_string(oom_reports_) + ".txt"), report.text());
  } catch (const std::exception&) {  // a report that cannot be written must not hide the failure itself
  }
}

void ProcessState::say_once(const std::string& text) {
  const std::lock_guard guard(mutex_);
  if (said_.find(text) != std::string::npos) return;
  said_ += text + "\n";
  std::fprintf(stderr, "plimsoll: %s\n", text.c_str());
}

void ProcessState::write_traces() const {
  if (settings_.folder.empty() || settings_.events == 0) return;
  for (size_t i = 0; i < pools().size(); ++i) {
    const std::string name = fmt::format("pool_trace_{{}}_{}.bin", pools_[i]->device());
    write_file(path(name), trace::to_binary(pools_[i]->trace()));
  }
}

namespace {

__attribute__((destructor)) void at_end() {
  const ProcessState* const state = ProcessState::existing();
  if (state == nullptr) return;
  try {
    state->write_traces();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plimsoll: %s\n", error.what());
  }
}

}  // namespace
}  // namespace plimsoll::preload
