#include "plimsoll/memory/spill_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/descriptor.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/file_limit.h"

namespace plimsoll {
namespace {

constexpr int64_t kBlock = 4096;  // of the disk: where slots begin, and what moves past the system's cache
constexpr int64_t kPiece = kMiB;  // moved at once

void refuse_memory(const std::string& folder) {
  struct statfs found {};
  if (statfs(folder.c_str(), &found) != 0) throw SystemError::from_errno(fmt::format("opening {}", folder), errno);
  if (found.f_type == TMPFS_MAGIC || found.f_type == RAMFS_MAGIC) {
    throw SystemError(fmt::format("{} is in memory itself (tmpfs): give a folder on a disk", folder));
  }
}

int open_unnamed(const std::string& folder) {
  refuse_memory(folder);
  const int fd = keep_apart(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd < 0) throw SystemError::from_errno(fmt::format("making a spill file in {}", folder), errno);
  return fd;
}

// The same file without the system's cache; -1 where that cannot be.
int open_past_cache(int fd) {
  return keep_apart(open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_RDWR | O_CLOEXEC | O_DIRECT));
}

// Memory that is there from the start, so that it is counted before a run.
class AlignedBuffer {
 public:
  AlignedBuffer(int64_t bytes, int64_t alignment)
      : data_(static_cast<std::byte*>(std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(bytes)))) {
    if (data_ == nullptr) throw std::bad_alloc();
    std::memset(data_.get(), 0, static_cast<size_t>(bytes));
  }
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

// What writing back may fail with; that a file system does not know how to be asked is no failure.
int writeback_error() { return errno == EIO || errno == ENOSPC || errno == EDQUOT ? errno : 0; }

}  // namespace

// The open file, as the far end of copies.
class SpillFile::File : public FarEnd {
 public:
  explicit File(int fd) : fd_(fd), direct_fd_(open_past_cache(fd)), bounce_(kPiece, kBlock) {}
  ~File() override {
    if (direct_fd_ >= 0) close(direct_fd_);
    close(fd_);
  }

  int fd() const { return fd_; }

  void fail_at(int64_t copy, int error) {
    fail_with_ = error;
    fail_at_ = copy;
  }

  int move(const Copy& copy) override {
    if (moved_++ == fail_at_) return fail_with_;
    const HoldFileLimitSignal held;
    for (int64_t done = 0; done < copy.bytes; done += kPiece) {
      const Copy piece = part_of(copy, done, std::min(kPiece, copy.bytes - done));
      if (const int error = move_piece(piece)) return error;
    }
    return 0;
  }

 private:
  static Copy part_of(const Copy& copy, int64_t begin, int64_t bytes) {
    return {copy.memory + begin, bytes, copy.offset + begin, copy.goes_out};
  }

  // Whole blocks past the cache, the rest through it.
  int move_piece(const Copy& piece) {
    const int64_t blocks = direct_fd_ >= 0 && piece.offset % kBlock == 0 ? piece.bytes / kBlock * kBlock : 0;
    if (blocks > 0) {
      const int error = move_past_cache(part_of(piece, 0, blocks));
      if (error == EINVAL) {  // the file system would not after all
        close(std::exchange(direct_fd_, -1));
        return move_piece(piece);
      }
      if (error != 0 || blocks == piece.bytes) return error;
    }
    return move_through_cache(part_of(piece, blocks, piece.bytes - blocks));
  }

  // By a buffer that begins where a block of memory does, as it must.
  int move_past_cache(const Copy& blocks) const {
    const auto bytes = static_cast<size_t>(blocks.bytes);
    Copy aligned = blocks;
    aligned.memory = bounce_.data();
    if (blocks.goes_out) std::memcpy(bounce_.data(), blocks.memory, bytes);
    const int error = transfer(direct_fd_, aligned);
    if (error == 0 && !blocks.goes_out) std::memcpy(blocks.memory, bounce_.data(), bytes);
    return error;
  }

  int move_through_cache(const Copy& piece) {
    if (const int error = transfer(fd_, piece)) return error;
    return piece.goes_out ? write_back(piece) : forget(piece);
  }

  static int transfer(int fd, const Copy& copy) {
    for (int64_t done = 0; done < copy.bytes;) {
      std::byte* at = copy.memory + done;
      const auto left = static_cast<size_t>(copy.bytes - done);
      const int64_t offset = copy.offset + done;
      const ssize_t moved = copy.goes_out ? pwrite(fd, at, left, offset) : pread(fd, at, left, offset);
      if (moved < 0 && errno == EINTR) continue;
      if (moved <= 0) return moved < 0 ? errno : EIO;
      done += moved;
    }
    return 0;
  }

  // Starts to bring a piece to the disk, and sees the one before it arrive there.
  int write_back(const Copy& piece) {
    if (sync_file_range(fd_, piece.offset, piece.bytes, SYNC_FILE_RANGE_WRITE) != 0 && writeback_error() != 0) {
      return errno;
    }
    constexpr unsigned kAll = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    const Copy before = std::exchange(going_, piece);
    if (before.bytes == 0) return 0;
    if (sync_file_range(fd_, before.offset, before.bytes, kAll) != 0 && writeback_error() != 0) return errno;
    return forget(before);
  }

  int forget(const Copy& piece) const {
    posix_fadvise(fd_, piece.offset, piece.bytes, POSIX_FADV_DONTNEED);
    return 0;
  }

  int fd_;
  int direct_fd_;  // the same file past the system's cache, or -1
  AlignedBuffer bounce_;
  Copy going_;  // the piece that is on its way to the disk
  int64_t moved_ = 0;
  std::atomic<int64_t> fail_at_ = -1;
  std::atomic<int> fail_with_ = 0;
};

SpillFile::SpillFile(std::string folder)
    : folder_(std::move(folder)),
      file_(std::make_unique<File>(open_unnamed(folder_))),
      engine_(*file_, fmt::format("moving data through the spill file in {}", folder_)) {}

SpillFile::~SpillFile() = default;

int64_t SpillFile::extend(int64_t bytes) {
  const int64_t region = align_up(bytes, kBlock);
  const HoldFileLimitSignal held;
  const int error = posix_fallocate(file_->fd(), bytes_, region);
  if (error == EFBIG) {
    throw SystemError(
        fmt::format("the spill file in {} may not grow by {}: it has {}, and the limit on file sizes "
                    "(ulimit -f) is below the sum; raise it",
                    folder_, format_bytes(region), format_bytes(bytes_)));
  }
  if (error != 0) {
    throw SystemError(fmt::format("the disk of {} has no room for {} more ({}): {} are spilled there", folder_,
                                  format_bytes(region), std::generic_category().message(error), format_bytes(bytes_)));
  }
  return std::exchange(bytes_, bytes_ + region);
}

int64_t SpillFile::slot(int64_t key, int64_t bytes) { return slot_in(slots_, key, bytes); }
int64_t SpillFile::slot(const std::string& name, int64_t bytes) { return slot_in(named_slots_, name, bytes); }

template <class Key>
int64_t SpillFile::slot_in(std::map<Key, Extent>& slots, const Key& key, int64_t bytes) {
  const auto found = slots.find(key);
  if (found == slots.end()) {
    const int64_t offset = extend(bytes);
    slots[key] = {offset, bytes};
    return offset;
  }
  if (found->second.bytes == bytes) return found->second.offset;
  throw ArgumentError(fmt::format("slot {} of the spill file has {} bytes, not {}", key, found->second.bytes, bytes));
}

int64_t SpillFile::region(int64_t bytes) {
  if (bytes > region_.bytes) region_ = {extend(bytes), bytes};
  return region_.offset;
}

SpillFile::Job SpillFile::read(std::byte* into, int64_t bytes, int64_t offset) {
  return submit({into, bytes, offset, false});
}

SpillFile::Job SpillFile::write(const std::byte* from, int64_t bytes, int64_t offset) {
  return submit({const_cast<std::byte*>(from), bytes, offset, true});  // NOLINT: not written to
}

SpillFile::Job SpillFile::submit(const Copy& copy) {
  ++submitted_;
  return engine_.submit(copy);
}

void SpillFile::fail_transfer(int64_t nth, int error) { file_->fail_at(submitted_ + nth, error); }

}  // namespace plimsoll
