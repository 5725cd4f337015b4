#include "plimsoll/memory/spill_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kSlotAlignment = 4096;
constexpr int64_t kPiece = 4 * kMiB;  // moved at once; of the file, two of them are in the system's cache at most

void refuse_memory(const std::string& folder) {
  struct statfs found {};
  if (statfs(folder.c_str(), &found) != 0) throw SystemError::from_errno(fmt::format("opening {}", folder), errno);
  if (found.f_type == TMPFS_MAGIC || found.f_type == RAMFS_MAGIC) {
    throw SystemError(fmt::format("{} is in memory itself (tmpfs): give a folder on a disk", folder));
  }
}

int open_unnamed(const std::string& folder) {
  refuse_memory(folder);
  const int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) throw SystemError::from_errno(fmt::format("making a spill file in {}", folder), errno);
  return fd;
}

// What writing back may fail with; that a file system does not know how to be asked is no failure.
int writeback_error() { return errno == EIO || errno == ENOSPC || errno == EDQUOT ? errno : 0; }

}  // namespace

// The open file, as the far end of copies.
class SpillFile::File : public FarEnd {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() override { close(fd_); }

  int fd() const { return fd_; }

  void fail_at(int64_t copy, int error) {
    fail_with_ = error;
    fail_at_ = copy;
  }

  int move(const Copy& copy) override {
    if (moved_++ == fail_at_) return fail_with_;
    for (int64_t done = 0; done < copy.bytes; done += kPiece) {
      const Copy piece{copy.memory + done, std::min(kPiece, copy.bytes - done), copy.offset + done, copy.goes_out};
      int error = move_piece(piece);
      if (error == 0) error = piece.goes_out ? write_back(piece) : forget(piece);
      if (error != 0) return error;
    }
    return 0;
  }

 private:
  int move_piece(const Copy& piece) const {
    for (int64_t done = 0; done < piece.bytes;) {
      std::byte* at = piece.memory + done;
      const auto left = static_cast<size_t>(piece.bytes - done);
      const int64_t offset = piece.offset + done;
      const ssize_t moved = piece.goes_out ? pwrite(fd_, at, left, offset) : pread(fd_, at, left, offset);
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
  const int64_t room = align_up(bytes, kSlotAlignment);
  if (posix_fallocate(file_->fd(), bytes_, room) != 0) {
    throw SystemError(fmt::format("the disk of {} has no room for {} more: {} are spilled there", folder_,
                                  format_bytes(room), format_bytes(bytes_)));
  }
  return std::exchange(bytes_, bytes_ + room);
}

int64_t SpillFile::slot(int64_t key, int64_t bytes) {
  const auto found = slots_.find(key);
  if (found == slots_.end()) {
    const int64_t offset = extend(bytes);
    slots_[key] = {offset, bytes};
    return offset;
  }
  if (found->second.bytes == bytes) return found->second.offset;
  throw ArgumentError(fmt::format("slot {} of the spill file has {} bytes, not {}", key, found->second.bytes, bytes));
}

int64_t SpillFile::room(int64_t bytes) {
  if (bytes > room_.bytes) room_ = {extend(bytes), bytes};
  return room_.offset;
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
