// Physical memory of an NVIDIA GPU as pages that can be mapped anywhere: the driver's virtual memory calls. Every page
// is one handle of the granularity (2 MiB on all cards so far), so that any page can be shown next to any other; a run
// of pages is given access in one call, which is most of what mapping costs.
//
// The driver unmaps without waiting for queued work: callers synchronise first, as Pool does through its StreamOrder.
// The device's primary context must be current in the calling thread (CurrentDevice, or a CUDA runtime's own).
#pragma once

#include <functional>
#include <vector>

#include "plimsoll/device/cuda/driver.h"
#include "plimsoll/memory/page_source.h"

namespace plimsoll::cuda {

class CudaPages : public PageSource {
 public:
  // UnsupportedError where the card has no virtual memory management.
  CudaPages(const Driver& driver, DeviceOrdinal device);
  ~CudaPages() override;
  CudaPages(const CudaPages&) = delete;
  CudaPages& operator=(const CudaPages&) = delete;

  // Asked before pages are created, with the bytes that would then be held in all: false refuses them, with a message
  // in `why`. For limits that move, as what a process takes on the card beside its pages.
  using Permit = std::function<bool(int64_t held_bytes, std::string& why)>;
  void set_permit(Permit permit) { permit_ = std::move(permit); }

  // Lets another device read and write all pages, mapped now or later. DriverError.
  void share_with(DeviceOrdinal other);

  DeviceOrdinal ordinal() const { return device_; }
  int64_t created_pages() const { return created_; }

  std::string device() const override;
  int64_t page_bytes() const override { return page_bytes_; }
  std::byte* reserve(int64_t bytes) override;
  void release(std::byte* range, int64_t bytes) override;
  void create(std::span<PageId> pages) override;
  void destroy(std::span<const PageId> pages) override;
  void map(std::byte* at, std::span<const PageId> pages) override;
  void unmap(std::byte* at, int64_t page_count) override;

 private:
  struct Mapped {
    DevicePointer at = 0;
    int64_t pages = 0;
  };

  AllocationProperties properties() const;
  void create_one(PageId& page);
  void forget(DevicePointer at, int64_t page_count);

  Driver driver_;
  DeviceOrdinal device_;
  int64_t page_bytes_ = 0;
  Permit permit_;
  std::vector<AccessDescription> access_;  // the device itself first
  std::vector<AllocationHandle> handles_;  // by page
  std::vector<PageId> unused_;             // destroyed, to be given out again
  std::vector<Mapped> mapped_;             // kept only for share_with, so only where there are several devices
  bool keeps_mapped_ = false;
  int64_t created_ = 0;
};

}  // namespace plimsoll::cuda
