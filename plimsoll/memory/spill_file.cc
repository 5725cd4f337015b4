#include "plimsoll/memory/spill_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kSlotAlignment = 4096;

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

}  // namespace

SpillFile::SpillFile(std::string folder)
    : folder_(std::move(folder)), fd_(open_unnamed(folder_)), thread_([this] { work(); }) {}

SpillFile::~SpillFile() {
  {
    const std::lock_guard held(lock_);
    stop_ = true;
  }
  asked_.notify_one();
  thread_.join();
  close(fd_);
}

int64_t SpillFile::slot(int64_t key, int64_t bytes) {
  const auto found = slots_.find(key);
  if (found != slots_.end()) {
    if (found->second.bytes == bytes) return found->second.offset;
    throw ArgumentError(fmt::format("slot {} of the spill file has {} bytes, not {}", key, found->second.bytes, bytes));
  }
  const int64_t room = align_up(bytes, kSlotAlignment);
  if (posix_fallocate(fd_, bytes_, room) != 0) {
    throw SystemError(fmt::format("the disk of {} has no room for {} more: {} are spilled there", folder_,
                                  format_bytes(room), format_bytes(bytes_)));
  }
  slots_[key] = {bytes_, bytes};
  bytes_ += room;
  return slots_[key].offset;
}

SpillFile::Job SpillFile::read(std::byte* into, int64_t bytes, int64_t offset) {
  return queue({into, bytes, offset, false});
}

SpillFile::Job SpillFile::write(const std::byte* from, int64_t bytes, int64_t offset) {
  return queue({const_cast<std::byte*>(from), bytes, offset, true});  // NOLINT: not written to
}

SpillFile::Job SpillFile::queue(const Transfer& transfer) {
  const std::lock_guard held(lock_);
  waiting_.push_back(transfer);
  asked_.notify_one();
  return next_++;
}

void SpillFile::wait(Job job) {
  std::unique_lock held(lock_);
  done_.wait(held, [&] { return finished_ >= job; });
  if (error_ != 0)
    throw SystemError::from_errno(fmt::format("moving data through the spill file in {}", folder_), error_);
}

void SpillFile::fail_transfer(int64_t nth, int error) {
  const std::lock_guard held(lock_);
  fail_at_ = next_ + nth;
  fail_with_ = error;
}

void SpillFile::work() {
  std::unique_lock held(lock_);
  for (;;) {
    asked_.wait(held, [&] { return stop_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Transfer transfer = waiting_.front();
    waiting_.pop_front();
    const bool fails = finished_ + 1 == fail_at_;
    const bool broken = error_ != 0;
    held.unlock();
    const int error = fails ? fail_with_ : broken ? 0 : move(transfer);
    held.lock();
    if (error_ == 0) error_ = error;
    ++finished_;
    done_.notify_all();
  }
}

int SpillFile::move(const Transfer& transfer) const {
  for (int64_t done = 0; done < transfer.bytes;) {
    std::byte* at = transfer.data + done;
    const auto left = static_cast<size_t>(transfer.bytes - done);
    const ssize_t moved =
        transfer.writes ? pwrite(fd_, at, left, transfer.offset + done) : pread(fd_, at, left, transfer.offset + done);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return moved < 0 ? errno : EIO;
    done += moved;
  }
  // What is on the disk need not stay in the system's cache, which counts as memory of the process's cgroup.
  if (transfer.writes) sync_file_range(fd_, transfer.offset, transfer.bytes, SYNC_FILE_RANGE_WRITE);
  if (!transfer.writes) posix_fadvise(fd_, transfer.offset, transfer.bytes, POSIX_FADV_DONTNEED);
  return 0;
}

}  // namespace plimsoll
