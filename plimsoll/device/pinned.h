// Page-locked ("pinned") memory of the host: the system never takes its pages back, so a device copies from and to it
// beside other work. It is of the host's budget: whoever holds some books bytes(), which is whole pages of the system
// and no more.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plimsoll/device/device.h"

namespace plimsoll::cuda {
class Runtime;
}

namespace plimsoll::device {

// What so many bytes take page-locked.
int64_t pinned_bytes(int64_t bytes);

// One block, zero at first.
class PinnedMemory {
 public:
  // PagesExhausted when the system locks no more memory: the message names the limit. SystemError for what a driver
  // refuses.
  PinnedMemory(const Device& device, int64_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_;
  cuda::Runtime* card_;  // whose driver locked it; null: the system did
  std::byte* data_ = nullptr;
};

}  // namespace plimsoll::device
