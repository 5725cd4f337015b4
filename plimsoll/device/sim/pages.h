// Memory of the simulated device: pages of the host, but the addresses that are handed out cannot be read or written.
// Each range has a twin where the pages are really mapped; only the device's own copies and kernels look there.
#pragma once

#include <map>
#include <mutex>

#include "plimsoll/memory/file_pages.h"

namespace plimsoll::device {

// The twins of all ranges of one device. Thread-safe.
class Twins {
 public:
  void add(std::byte* range, int64_t bytes, std::byte* twin);
  void remove(std::byte* range);
  // Where what is at this address really is; null for an address of none of the ranges. The end of a range counts.
  std::byte* find(const std::byte* at) const;

 private:
  struct Twin {
    int64_t bytes;
    std::byte* at;
  };
  mutable std::mutex lock_;
  std::map<const std::byte*, Twin> ranges_;
};

class SimPages : public PageSource {
 public:
  SimPages(int64_t page_bytes, Twins& twins) : host_(FilePages::host(page_bytes)), twins_(twins) {}

  std::string device() const override { return "sim"; }
  int64_t page_bytes() const override { return host_.page_bytes(); }
  std::byte* reserve(int64_t bytes) override;
  void release(std::byte* range, int64_t bytes) override;
  void create(std::span<PageId> pages) override { host_.create(pages); }
  void destroy(std::span<const PageId> pages) override { host_.destroy(pages); }
  void map(std::byte* at, std::span<const PageId> pages) override { host_.map(twins_.find(at), pages); }
  void unmap(std::byte* at, int64_t page_count) override { host_.unmap(twins_.find(at), page_count); }
  void prefault(std::byte* at, int64_t page_count) override { host_.prefault(twins_.find(at), page_count); }

 private:
  FilePages host_;
  Twins& twins_;
};

}  // namespace plimsoll::device
