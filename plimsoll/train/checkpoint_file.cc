#include "plimsoll/train/checkpoint_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "plimsoll/base/descriptor.h"
#include "plimsoll/base/error.h"

namespace plimsoll::train {
namespace {

constexpr mode_t kNewFile = 0666;
constexpr int64_t kFlushBytes = int64_t{8} << 20;  // in the system's cache before they go to the disk

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

[[noreturn]] void fail(const char* doing, const std::string& path) {
  throw SystemError::from_errno(fmt::format("{} {}", doing, quote(path)), errno);
}

}  // namespace

std::string CheckpointFile::unfinished_name(const std::string& path) {
  const std::filesystem::path whole(path);
  return (std::filesystem::path(folder_of(path)) / fmt::format(".{}.part", whole.filename().string())).string();
}

CheckpointFile::CheckpointFile(std::string path) : path_(std::move(path)), unfinished_(unfinished_name(path_)) {
  fd_ = keep_apart(open(unfinished_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kNewFile));
  if (fd_ < 0) fail("writing", path_);
}

CheckpointFile::~CheckpointFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(unfinished_.c_str());
}

void CheckpointFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("writing", path_);
    bytes = bytes.subspan(static_cast<size_t>(count));
    written_ += count;
  }
  if (written_ - started_ < kFlushBytes) return;
  sync_file_range(fd_, started_, written_ - started_, SYNC_FILE_RANGE_WRITE);  // fsync waits for it, and sees errors
  posix_fadvise(fd_, 0, started_, POSIX_FADV_DONTNEED);
  started_ = written_;
}

void CheckpointFile::finish() {
  if (fsync(fd_) != 0) fail("writing", path_);
  posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
  const int fd = std::exchange(fd_, -1);
  if (close(fd) != 0 || rename(unfinished_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    unlink(unfinished_.c_str());
    errno = error;
    fail("writing", path_);
  }
  sync_folder(folder_of(path_));
}

OpenFile::OpenFile(std::string path) : path_(std::move(path)) {
  fd_ = keep_apart(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd_ < 0) fail("reading", path_);
  posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);
}

OpenFile::~OpenFile() {
  posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
  close(fd_);
}

void OpenFile::read(int64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t count = pread(fd_, into.data(), into.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("reading", path_);
    if (count == 0) throw SystemError(fmt::format("reading {}: it ends at byte {}", quote(path_), offset));
    into = into.subspan(static_cast<size_t>(count));
    offset += count;
  }
}

void sync_folder(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail("reading", folder);
  const bool done = fsync(fd) == 0 || errno == EINVAL;  // some file systems have no need of it, and refuse
  const int error = errno;
  close(fd);
  errno = error;
  if (!done) fail("writing", folder);
}

void stream_checkpoint(const std::vector<KeptTensor>& tensors, const RunState& state, int64_t most,
                       const std::function<void(int64_t bytes, const FillBytes& fill)>& next) {
  std::vector<models::StoredSpec> specs;
  for (const KeptTensor& tensor : tensors) specs.push_back(tensor.spec);
  const std::string header = models::stored_header(specs, texts_of(state));
  const auto stream = [&](int64_t bytes, const ReadBytes& read) {
    for (int64_t first = 0; first < bytes; first += most) {
      next(std::min(most, bytes - first), [&](std::span<std::byte> into) { read(first, into); });
    }
  };
  stream(static_cast<int64_t>(header.size()), [&](int64_t offset, std::span<std::byte> into) {
    std::memcpy(into.data(), header.data() + offset, into.size());
  });
  for (const KeptTensor& tensor : tensors) stream(tensor.spec.bytes(), tensor.read);
}

}  // namespace plimsoll::train
