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

std::string header_of(const std::vector<KeptTensor>& tensors, const RunState& state) {
  std::vector<models::StoredSpec> specs;
  for (const KeptTensor& tensor : tensors) specs.push_back(tensor.spec);
  return models::stored_header(specs, texts_of(state));
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

CheckpointPart::CheckpointPart(const std::string& path) : path_(path) {
  fd_ = keep_apart(open(CheckpointFile::unfinished_name(path).c_str(), O_WRONLY | O_CLOEXEC));
  if (fd_ < 0) fail("writing a part of", path_);
}

CheckpointPart::~CheckpointPart() {
  if (fd_ >= 0) close(fd_);
}

void CheckpointPart::write(int64_t offset, std::span<const std::byte> bytes) {
  unflushed_ += static_cast<int64_t>(bytes.size());
  while (!bytes.empty()) {
    const ssize_t count = pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("writing a part of", path_);
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += count;
  }
  if (unflushed_ < kFlushBytes) return;
  sync_file_range(fd_, 0, 0, SYNC_FILE_RANGE_WRITE);  // as in CheckpointFile
  posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
  unflushed_ = 0;
}

void CheckpointPart::finish() {
  if (fsync(fd_) != 0) fail("writing a part of", path_);
  posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
  if (close(std::exchange(fd_, -1)) != 0) fail("writing a part of", path_);
}

void make_shared_file(const std::string& path, int64_t bytes) {
  const std::string unfinished = CheckpointFile::unfinished_name(path);
  const int fd = keep_apart(open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kNewFile));
  if (fd < 0) fail("writing", path);
  const bool done = ftruncate(fd, bytes) == 0;
  const int error = errno;
  close(fd);
  if (done) return;
  unlink(unfinished.c_str());
  errno = error;
  fail("writing", path);
}

void name_shared_file(const std::string& path) {
  if (rename(CheckpointFile::unfinished_name(path).c_str(), path.c_str()) != 0) fail("writing", path);
  sync_folder(folder_of(path));
}

void discard_shared_file(const std::string& path) { unlink(CheckpointFile::unfinished_name(path).c_str()); }

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
  stream_part(tensors, state, {}, most,
              [&](int64_t /*at*/, int64_t bytes, const FillBytes& fill) { next(bytes, fill); });
}

void stream_part(const std::vector<KeptTensor>& tensors, const RunState& state, const RankPart& part, int64_t most,
                 const std::function<void(int64_t at, int64_t bytes, const FillBytes& fill)>& next) {
  const std::string header = header_of(tensors, state);
  const auto stream = [&](int64_t start, int64_t from, int64_t end, const ReadBytes& read) {
    for (int64_t first = from; first < end; first += most) {
      next(start + first, std::min(most, end - first), [&](std::span<std::byte> into) { read(first, into); });
    }
  };
  auto start = static_cast<int64_t>(header.size());
  if (part.is_first()) {
    stream(0, 0, start, [&](int64_t offset, std::span<std::byte> into) {
      std::memcpy(into.data(), header.data() + offset, into.size());
    });
  }
  for (const KeptTensor& tensor : tensors) {
    const int64_t each = element_bytes(tensor.spec.dtype);
    const int64_t elements = tensor.spec.bytes() / each;
    const device::Shard own =
        part ? device::shard_of(elements, part.ranks->ranks(), part.ranks->rank()) : device::Shard{0, elements};
    stream(start, own.first * each, own.end * each, tensor.read);
    start += tensor.spec.bytes();
  }
}

int64_t bytes_of_checkpoint(const std::vector<KeptTensor>& tensors, const RunState& state) {
  return static_cast<int64_t>(header_of(tensors, state).size()) + bytes_of(tensors);
}

}  // namespace plimsoll::train
