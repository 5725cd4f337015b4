// Address space and page accounting without memory: any page size, any capacity, so that a 139 GiB GPU can be replayed
// on a laptop. Addresses must not be touched.
#pragma once

#include <vector>

#include "plimsoll/memory/page_source.h"

namespace plimsoll {

class SimulatedPages : public PageSource {
 public:
  // ArgumentError unless `page_bytes` is a power of two of at least 256.
  SimulatedPages(int64_t page_bytes, int64_t capacity_bytes, std::string device = "simulated");

  int64_t created_pages() const { return created_; }
  int64_t mapped_pages() const { return mapped_; }  // a page mapped twice counts twice

  std::string device() const override { return device_; }
  int64_t page_bytes() const override { return page_bytes_; }
  std::byte* reserve(int64_t bytes) override;
  void release(std::byte* range, int64_t bytes) override;
  void create(std::span<PageId> pages) override;
  void destroy(std::span<const PageId> pages) override;
  void map(std::byte* at, std::span<const PageId> pages) override;
  void unmap(std::byte* at, int64_t page_count) override;

 private:
  int64_t page_bytes_;
  int64_t capacity_pages_;
  std::string device_;
  uintptr_t next_address_;
  PageId next_page_ = 0;
  std::vector<PageId> unused_;  // destroyed, to be given out again
  int64_t created_ = 0;
  int64_t mapped_ = 0;
};

}  // namespace plimsoll
