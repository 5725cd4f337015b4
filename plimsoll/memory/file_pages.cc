#include "plimsoll/memory/file_pages.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/descriptor.h"
#include "plimsoll/base/file_limit.h"

namespace plimsoll {
namespace {

constexpr int64_t kLargestPage = 2 * kMiB;

// RAM is taken a system page at a time, in an order that is shuffled over stretches of this length. Taken in order it
// is contiguous on the machine, too, and tensors of one size that are read and written side by side (a parameter, its
// gradient, its moments) then lie a multiple of a large power of two apart in physical memory: on some machines they
// displace each other, and an update takes three times as long.
constexpr int64_t kShuffled = 2 * kMiB;

void check_page(int64_t page_bytes) {
  const int64_t system_page = sysconf(_SC_PAGESIZE);
  if (page_bytes < system_page || !std::has_single_bit(static_cast<uint64_t>(page_bytes))) {
    throw ArgumentError(
        fmt::format("a page of {} B: expected a power of two of at least the system's {} B", page_bytes, system_page));
  }
}

// Calls `visit(first, count)` for each run of consecutive numbers: one system call serves a whole run.
template <typename Visit>
void for_each_run(std::span<const PageId> pages, Visit visit) {
  for (size_t begin = 0; begin < pages.size();) {
    size_t end = begin + 1;
    while (end < pages.size() && pages[end] == pages[end - 1] + 1) ++end;
    visit(begin, end - begin);
    begin = end;
  }
}

void* map_or_throw(void* at, int64_t bytes, int protection, int flags, int fd, int64_t offset) {
  void* mapped = mmap(at, static_cast<size_t>(bytes), protection, flags, fd, offset);
  if (mapped == MAP_FAILED) throw SystemError::from_errno(fmt::format("mapping {}", format_bytes(bytes)), errno);
  return mapped;
}

}  // namespace

FilePages FilePages::host(int64_t page_bytes) {
  check_page(page_bytes);
  const int fd = keep_apart(memfd_create("plimsoll", MFD_CLOEXEC));
  if (fd < 0) throw SystemError::from_errno("memfd_create", errno);
  return {fd, page_bytes, "cpu", Kind::ram};
}

FilePages FilePages::spill(const std::string& folder, int64_t page_bytes) {
  check_page(page_bytes);
  const int fd = keep_apart(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd < 0) {
    throw SystemError(fmt::format("{}; name another folder for spill files",
                                  SystemError::from_errno("making a spill file in " + folder, errno).what()));
  }
  return {fd, page_bytes, "spill file in " + folder, Kind::disk};
}

FilePages::FilePages(int fd, int64_t page_bytes, std::string device, Kind kind)
    : fd_(fd), page_bytes_(page_bytes), device_(std::move(device)), kind_(kind) {}

FilePages::FilePages(FilePages&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      page_bytes_(other.page_bytes_),
      device_(std::move(other.device_)),
      kind_(other.kind_),
      order_(other.order_),
      next_page_(other.next_page_),
      unused_(std::move(other.unused_)) {}

FilePages::~FilePages() {
  if (fd_ >= 0) close(fd_);
}

std::byte* FilePages::reserve(int64_t bytes) {
  // One page more than asked, so that a page-aligned range can be cut out of it.
  const int64_t range = align_up(bytes, page_bytes_);
  auto* raw = static_cast<std::byte*>(
      map_or_throw(nullptr, range + page_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  const int64_t skip = align_up(reinterpret_cast<intptr_t>(raw), page_bytes_) - reinterpret_cast<intptr_t>(raw);
  if (skip > 0) munmap(raw, static_cast<size_t>(skip));
  if (skip < page_bytes_) munmap(raw + skip + range, static_cast<size_t>(page_bytes_ - skip));
  return raw + skip;
}

void FilePages::release(std::byte* range, int64_t bytes) {
  munmap(range, static_cast<size_t>(align_up(bytes, page_bytes_)));
}

bool FilePages::allocate(int64_t offset, int64_t bytes) {
  int result = 0;
  do {
    result = fallocate(fd_, 0, offset, bytes);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

bool FilePages::allocate_shuffled(int64_t offset, int64_t bytes) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  std::vector<int64_t> offsets;
  for (int64_t begin = 0; begin < bytes; begin += kShuffled) {
    offsets.clear();
    for (int64_t at = begin; at < std::min(begin + kShuffled, bytes); at += page) offsets.push_back(offset + at);
    std::shuffle(offsets.begin(), offsets.end(), order_);
    if (!std::ranges::all_of(offsets, [&](int64_t at) { return allocate(at, page); })) return false;
  }
  return true;
}

bool FilePages::allocate_run(PageId first, size_t count) {
  const int64_t offset = first * page_bytes_;
  const auto bytes = static_cast<int64_t>(count) * page_bytes_;
  const HoldFileLimitSignal held;
  if (kind_ == Kind::ram ? allocate_shuffled(offset, bytes) : allocate(offset, bytes)) return true;
  const int error = errno;
  punch_run(first, count);  // what was allocated before it failed
  errno = error;
  return false;
}

void FilePages::punch_run(PageId first, size_t count) {
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, first * page_bytes_,
            static_cast<int64_t>(count) * page_bytes_);
}

void FilePages::create(std::span<PageId> pages) {
  const size_t reused = std::min(pages.size(), unused_.size());
  std::copy(unused_.end() - static_cast<int64_t>(reused), unused_.end(), pages.begin());
  for (size_t i = reused; i < pages.size(); ++i) pages[i] = next_page_ + static_cast<PageId>(i - reused);
  std::sort(pages.begin(), pages.end());
  size_t done = 0;
  int error = 0;
  for_each_run(pages, [&](size_t begin, size_t count) {
    if (error != 0) return;
    if (allocate_run(pages[begin], count)) {
      done = begin + count;
    } else {
      error = errno;
    }
  });
  if (error != 0) {
    for_each_run(pages.first(done), [&](size_t begin, size_t count) { punch_run(pages[begin], count); });
    refuse(static_cast<int64_t>(pages.size()) * page_bytes_, error);
  }
  unused_.resize(unused_.size() - reused);
  next_page_ += static_cast<PageId>(pages.size() - reused);
}

void FilePages::refuse(int64_t bytes, int error) const {
  const auto failure = SystemError::from_errno(fmt::format("taking {} from {}", format_bytes(bytes), device_), error);
  const bool full = error == ENOSPC || error == ENOMEM || error == EDQUOT || error == EFBIG;
  if (full) throw PagesExhausted(failure.what());
  throw failure;
}

void FilePages::destroy(std::span<const PageId> pages) {
  for_each_run(pages, [&](size_t begin, size_t count) { punch_run(pages[begin], count); });
  unused_.insert(unused_.end(), pages.begin(), pages.end());
}

void FilePages::map(std::byte* at, std::span<const PageId> pages) try {
  for_each_run(pages, [&](size_t begin, size_t count) {
    std::byte* const place = at + static_cast<int64_t>(begin) * page_bytes_;
    const auto bytes = static_cast<int64_t>(count) * page_bytes_;
    map_or_throw(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_, pages[begin] * page_bytes_);
  });
} catch (...) {
  unmap(at, static_cast<int64_t>(pages.size()));
  throw;
}

// Where the system has no room for one more mapping the old one stays: nobody looks there, and the next map replaces
// it.
void FilePages::unmap(std::byte* at, int64_t page_count) {
  static_cast<void>(mmap(at, static_cast<size_t>(page_count * page_bytes_), PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0));
}

int64_t host_page_bytes(int64_t budget_bytes) {
  const int64_t smallest = sysconf(_SC_PAGESIZE);
  int64_t page = kLargestPage;
  while (page > smallest && page > budget_bytes / 4096) page /= 2;
  return page;
}

}  // namespace plimsoll
