// Pages of a file, mapped where they are needed: of an anonymous memory file for the host's RAM, of a file on disk for
// spill. Pages are allocated when they are created, so a full machine or disk is an error then and no signal later.
#pragma once

#include <random>
#include <vector>

#include "plimsoll/memory/page_source.h"

namespace plimsoll {

class FilePages : public PageSource {
 public:
  // RAM, scattered over the machine's memory.
  static FilePages host(int64_t page_bytes);

  // A spill file in `folder`. It has no name from the start, so it is gone when the process is, however it ends.
  // SystemError that names the folder when it is missing, read-only or on a system without such files.
  static FilePages spill(const std::string& folder, int64_t page_bytes);

  FilePages(FilePages&& other) noexcept;
  FilePages& operator=(FilePages&&) = delete;
  ~FilePages() override;

  std::string device() const override { return device_; }
  int64_t page_bytes() const override { return page_bytes_; }
  std::byte* reserve(int64_t bytes) override;
  void release(std::byte* range, int64_t bytes) override;
  void create(std::span<PageId> pages) override;
  void destroy(std::span<const PageId> pages) override;
  void map(std::byte* at, std::span<const PageId> pages) override;
  void unmap(std::byte* at, int64_t page_count) override;
  void prefault(std::byte* at, int64_t page_count) override;  // page tables of RAM; a spill file's pages stay on disk

 private:
  enum class Kind : uint8_t { ram, disk };
  FilePages(int fd, int64_t page_bytes, std::string device, Kind kind);

  // All or, with errno, a part of it.
  bool allocate(int64_t offset, int64_t bytes);
  bool allocate_shuffled(int64_t offset, int64_t bytes);
  // All or, with errno, nothing.
  bool allocate_run(PageId first, size_t count);
  void punch_run(PageId first, size_t count);
  [[noreturn]] void refuse(int64_t bytes, int error) const;  // PagesExhausted when it is full, else SystemError

  int fd_;
  int64_t page_bytes_;
  std::string device_;
  Kind kind_;
  std::minstd_rand order_;
  PageId next_page_ = 0;
  std::vector<PageId> unused_;  // punched out, to be given out again
};

// The page that suits a pool of `budget_bytes` on this host: at most a 4096th of the budget, so that rounding to pages
// does not matter, between the system's page and 2 MiB.
int64_t host_page_bytes(int64_t budget_bytes);

}  // namespace plimsoll
