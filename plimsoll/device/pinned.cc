#include "plimsoll/device/pinned.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "plimsoll/base/bytes.h"
#include "plimsoll/device/cuda/runtime.h"

namespace plimsoll::device {
namespace {

// A card's driver copies through buffers of its own unless it locked the memory itself. Null: the system locks it.
cuda::Runtime* card_of(const Device& device) {
  const bool is_card = device.traits().name.starts_with("cuda") && cuda::Runtime::exists();
  return is_card ? &cuda::Runtime::current() : nullptr;
}

std::byte* lock_by(cuda::Runtime& card, int64_t bytes) {
  void* at = nullptr;
  const auto size = static_cast<size_t>(bytes);
  const cuda::Result result = card.compute().mem_host_alloc(&at, size, 0);
  if (result == cuda::kErrorOutOfMemory) {
    throw PagesExhausted(fmt::format("the driver locks no {} of the host's memory", format_bytes(bytes)));
  }
  card.check(result, "cuMemHostAlloc");
  std::memset(at, 0, size);
  return static_cast<std::byte*>(at);
}

std::byte* lock_by_system(int64_t bytes) {
  void* mapped = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED | MAP_POPULATE, -1, 0);
  if (mapped != MAP_FAILED) return static_cast<std::byte*>(mapped);
  const int error = errno;
  const auto failure =
      SystemError::from_errno(fmt::format("locking {} of the host's memory", format_bytes(bytes)), error);
  if (error != EAGAIN && error != EPERM && error != ENOMEM) throw failure;
  throw PagesExhausted(fmt::format("{}: raise the limit of page-locked memory (ulimit -l)", failure.what()));
}

}  // namespace

int64_t pinned_bytes(int64_t bytes) { return align_up(bytes, sysconf(_SC_PAGESIZE)); }

PinnedMemory::PinnedMemory(const Device& device, int64_t bytes) : bytes_(pinned_bytes(bytes)), card_(card_of(device)) {
  if (bytes_ > 0) data_ = card_ != nullptr ? lock_by(*card_, bytes_) : lock_by_system(bytes_);
}

PinnedMemory::~PinnedMemory() {
  if (data_ == nullptr) return;
  if (card_ != nullptr) {
    card_->compute().mem_free_host(data_);
  } else {
    munmap(data_, static_cast<size_t>(bytes_));
  }
}

}  // namespace plimsoll::device
