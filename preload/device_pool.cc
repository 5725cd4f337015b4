#include "preload/device_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "plimsoll/base/bytes.h"
#include "plimsoll/device/cuda/bus_id.h"
#include "plimsoll/device/cuda/nvml.h"

namespace plimsoll::preload {
namespace {

int64_t card_bytes(const cuda::Driver& driver, int device) {
  size_t bytes = 0;
  driver.check(driver.device_total_mem(&bytes, device), fmt::format("cuDeviceTotalMem of device {}", device));
  return static_cast<int64_t>(bytes);
}

// NVML, which the baseline is from, counts what the driver keeps for itself as used; the driver leaves it out of the
// card's total.
int64_t kept_by_driver(std::string_view bus_id, int64_t card) {
  for (const cuda::CardMemory& known : cuda::card_memory()) {
    if (cuda::normal_bus_id(known.bus_id) == cuda::normal_bus_id(bus_id)) return known.total_bytes - card;
  }
  return 0;
}

int64_t used_before(const cuda::Driver& driver, int device, const Settings& settings) {
  char bus_id[32] = {};
  if (driver.device_get_pci_bus_id(bus_id, sizeof bus_id, device) != cuda::kSuccess) return -1;
  const int64_t baseline = settings.baseline_bytes(bus_id);
  if (baseline < 0) return -1;
  return std::max<int64_t>(0, baseline - std::max<int64_t>(0, kept_by_driver(bus_id, card_bytes(driver, device))));
}

Budget budget_of(const Settings& settings, int64_t card) {
  if (settings.budget_bytes > 0 && settings.budget_bytes < card) return {settings.budget_bytes, "PLIMSOLL_BUDGET"};
  return {card, "the card"};
}

}  // namespace

DevicePool::DevicePool(const cuda::Driver& driver, int device, const Settings& settings)
    : driver_(driver),
      total_bytes_(card_bytes(driver, device)),
      baseline_bytes_(used_before(driver, device, settings)),
      pages_(driver, device),
      order_(driver),
      recorder_(settings.events),
      budget_(budget_of(settings, total_bytes_)),
      pool_(pages_, budget_, recorder_, &order_, Pool::Calls::serialised) {
  if (budget_.bytes < total_bytes_ && baseline_bytes_ >= 0) {
    pages_.set_permit([this](int64_t held_bytes, std::string& why) { return permits(held_bytes, why); });
  }
}

// What the process takes beside the pool (context, modules, libraries' own memory) is what the card is short of, less
// what others had before.
DevicePool::Outside DevicePool::outside(int64_t held_bytes) const {
  size_t free = 0;
  size_t total = 0;
  driver_.check(driver_.mem_get_info(&free, &total), "cuMemGetInfo");
  Outside outside;
  outside.free_bytes = static_cast<int64_t>(free);
  if (baseline_bytes_ >= 0) {
    const int64_t taken = static_cast<int64_t>(total - free) - baseline_bytes_ - held_bytes;
    outside.process_bytes = std::max<int64_t>(0, taken);
  }
  return outside;
}

bool DevicePool::permits(int64_t held_bytes, std::string& why) const {
  const int64_t beside = outside(pages_.created_pages() * pages_.page_bytes()).process_bytes;
  if (held_bytes + beside <= budget_.bytes) return true;
  why = fmt::format("the process takes {} on {} beside its tensors (context, kernels, libraries), and {} is the budget",
                    format_bytes(beside), pages_.device(), format_bytes(budget_.bytes));
  return false;
}

void* DevicePool::allocate(size_t bytes, StreamHandle stream) {
  const std::lock_guard guard(lock_);
  if (bytes > static_cast<size_t>(INT64_MAX / 4)) bytes = static_cast<size_t>(INT64_MAX / 4);  // refused, with a report
  const Block block = pool_.allocate({.bytes = static_cast<int64_t>(bytes), .stream = order_.number(stream)});
  blocks_.insert(block);
  return block.data;
}

bool DevicePool::free(void* pointer, const StreamHandle* stream) {
  const std::lock_guard guard(lock_);
  Block block;
  if (!blocks_.take(pointer, block)) return false;
  if (stream == nullptr) {
    pool_.free(block);
  } else {
    pool_.free(block, order_.number(*stream));
  }
  return true;
}

bool DevicePool::free_later(void* pointer, StreamHandle stream) {
  const std::lock_guard guard(lock_);
  if (blocks_.find(pointer) == nullptr) return false;
  deferred_.push_back({pointer, stream});
  return true;
}

void DevicePool::free_deferred() {
  std::vector<Deferred> due;
  {
    const std::lock_guard guard(lock_);
    due.swap(deferred_);
  }
  for (const Deferred& deferred : due) free(deferred.pointer, &deferred.stream);
}

bool DevicePool::owns(const void* pointer) const {
  const std::lock_guard guard(lock_);
  return blocks_.find(pointer) != nullptr;
}

void DevicePool::begin_capture(StreamHandle stream) {
  const std::lock_guard guard(lock_);
  order_.freeze(stream);
}

void DevicePool::end_capture(StreamHandle stream) {
  const std::lock_guard guard(lock_);
  order_.thaw(stream);
}

void DevicePool::destroy_stream(StreamHandle stream) {
  const std::lock_guard guard(lock_);
  order_.forget(stream);
}

PoolStats DevicePool::stats() const {
  const std::lock_guard guard(lock_);
  return pool_.stats();
}

// The pool resets both peaks at once; the program may reset one.
int64_t DevicePool::used_peak_bytes() const {
  const std::lock_guard guard(lock_);
  return std::max(kept_used_peak_, pool_.stats().live_peak_bytes);
}

int64_t DevicePool::reserved_peak_bytes() const {
  const std::lock_guard guard(lock_);
  return std::max(kept_reserved_peak_, pool_.stats().reserved_peak_bytes);
}

void DevicePool::reset_used_peak() {
  const std::lock_guard guard(lock_);
  kept_reserved_peak_ = std::max(kept_reserved_peak_, pool_.stats().reserved_peak_bytes);
  kept_used_peak_ = 0;
  pool_.reset_peak();
}

void DevicePool::reset_reserved_peak() {
  const std::lock_guard guard(lock_);
  kept_used_peak_ = std::max(kept_used_peak_, pool_.stats().live_peak_bytes);
  kept_reserved_peak_ = 0;
  pool_.reset_peak();
}

int64_t DevicePool::trim() {
  const std::lock_guard guard(lock_);
  return pool_.trim();
}

void DevicePool::share_with(int device) {
  const std::lock_guard guard(lock_);
  pages_.share_with(device);
}

DevicePool::MemoryInfo DevicePool::memory_info() const {
  const PoolStats stats = this->stats();
  const Outside outside = this->outside(stats.reserved_bytes);
  const int64_t unused = stats.reserved_bytes - stats.live_bytes;
  const int64_t within = budget_.bytes - outside.process_bytes - stats.live_bytes;
  MemoryInfo memory_info;
  memory_info.total_bytes = budget_.bytes;
  memory_info.free_bytes = std::max<int64_t>(0, std::min(within, outside.free_bytes + unused));
  return memory_info;
}

}  // namespace plimsoll::preload
