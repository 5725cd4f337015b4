#include "plimsoll/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/descriptor.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/file_limit.h"

namespace plimsoll {
namespace {

constexpr int kMostLinks = 40;  // as many as the kernel follows
constexpr mode_t kNewFile = 0666;

[[noreturn]] void fail(std::string_view doing, const std::string& path) {
  throw SystemError::from_errno(fmt::format("{} {}", doing, quote(path)), errno);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(keep_apart(fd)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // Network file systems tell of a full disk only now.
  bool close_now() { return close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

std::optional<std::string> link_at(const std::string& path) {
  std::array<char, PATH_MAX> text{};
  const ssize_t size = readlink(path.c_str(), text.data(), text.size());
  if (size < 0) return std::nullopt;
  return std::string(text.data(), static_cast<size_t>(size));
}

// The number of a descriptor of this process that the path names: of "/proc/self/fd/1", to which /dev/stdout points.
std::optional<int> descriptor_named(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> folder(realpath(folder_of(path).c_str(), nullptr), &std::free);
  if (!folder || folder.get() != fmt::format("/proc/{}/fd", getpid())) return std::nullopt;
  const std::string_view number = std::string_view(path).substr(path.rfind('/') + 1);
  int fd = -1;
  std::from_chars(number.data(), number.data() + number.size(), fd);
  return fd >= 0 ? std::optional<int>(fd) : std::nullopt;
}

// A temporary file in the folder of the file that it is to become. It has no name until it is whole, where the file
// system knows such files.
class Replacement {
 public:
  explicit Replacement(std::string target) : target_(std::move(target)), folder_(folder_of(target_)) {
    file_.emplace(open(folder_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kNewFile));
    if (*file_ && access(open_path().c_str(), F_OK) == 0) return;
    name_ = free_name();
    file_.emplace(open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kNewFile));
    if (!*file_) name_.clear();
  }
  ~Replacement() {
    if (!name_.empty()) unlink(name_.c_str());
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  explicit operator bool() const { return static_cast<bool>(*file_); }

  // Whether it is in the target's place now; errno says why not.
  bool fill(std::string_view bytes, const struct stat* before) {
    const int fd = file_->get();
    if (before != nullptr && (before->st_uid != geteuid() || before->st_gid != getegid())) {
      static_cast<void>(!fchown(fd, before->st_uid, before->st_gid));  // as far as we may
    }
    if (before != nullptr && fchmod(fd, before->st_mode & 07777) != 0) return false;
    if (!write_all(fd, bytes) || (fsync(fd) != 0 && errno != EINVAL) || !give_name() || !file_->close_now())
      return false;
    if (rename(name_.c_str(), target_.c_str()) != 0) return false;
    name_.clear();
    return true;
  }

 private:
  std::string open_path() const { return fmt::format("/proc/self/fd/{}", file_->get()); }

  std::string free_name() const {
    static std::atomic<int> count = 0;
    const std::string folder = folder_ == "." ? "./" : folder_;
    std::string name;
    do {
      name = fmt::format("{}.plimsoll-{}-{}.tmp", folder, getpid(), count++);
    } while (access(name.c_str(), F_OK) == 0);
    return name;
  }

  bool give_name() {
    if (!name_.empty()) return true;
    std::string name = free_name();
    if (linkat(AT_FDCWD, open_path().c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) return false;
    name_ = std::move(name);
    return true;
  }

  std::string target_;
  std::string folder_;
  std::optional<Descriptor> file_;
  std::string name_;  // that is to be removed
};

void write_in_place(const std::string& path, std::string_view bytes) {
  Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, kNewFile));
  if (!file || !write_all(file.get(), bytes) || !file.close_now()) fail("writing", path);
}

// Of a file in a folder that we may not write to, and of one that is mounted by itself.
bool must_stay(int error) { return error == EACCES || error == EPERM || error == EROFS || error == EBUSY; }

void replace(const std::string& target, std::string_view bytes, const struct stat* before) {
  Replacement replacement(target);
  if (replacement && replacement.fill(bytes, before)) return;
  if (before == nullptr || !must_stay(errno)) fail("writing", target);
  write_in_place(target, bytes);
}

// A deleter of its own: glibc's attributes of fclose are no part of a template argument, and newer compilers say so.
struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

std::string read_file(const std::string& path) {
  constexpr size_t kFirstChunk = size_t{64} << 10;
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rbe"));
  if (!file) fail("reading", path);
  struct stat found {};
  if (fstat(fileno(file.get()), &found) == 0 && S_ISCHR(found.st_mode) && isatty(fileno(file.get())) == 0) {
    throw SystemError(fmt::format("reading {}: it is a device, which may have no end", quote(path)));
  }
  std::string bytes;
  size_t got = 0;
  do {
    bytes.resize(got == 0 ? kFirstChunk : 2 * bytes.size());
    got += std::fread(bytes.data() + got, 1, bytes.size() - got, file.get());
  } while (got == bytes.size());
  if (std::ferror(file.get()) != 0) fail("reading", path);
  bytes.resize(got);
  return bytes;
}

std::string read_small_file(const std::string& path, int64_t most_bytes) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  struct stat found {};
  if (!file || fstat(file.get(), &found) != 0) fail("reading", path);
  if (!S_ISREG(found.st_mode)) {
    throw SystemError(fmt::format("reading {}: it is {}, expected a regular file", quote(path),
                                  S_ISDIR(found.st_mode)    ? "a folder"
                                  : S_ISFIFO(found.st_mode) ? "a FIFO"
                                                            : "a device"));
  }
  std::string bytes(static_cast<size_t>(most_bytes) + 1, '\0');
  size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t more = read(file.get(), bytes.data() + got, bytes.size() - got);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) fail("reading", path);
    if (more == 0) break;
    got += static_cast<size_t>(more);
  }
  if (got == bytes.size()) {
    throw SystemError(fmt::format("reading {}: it has more than {}", quote(path), format_bytes(most_bytes)));
  }
  bytes.resize(got);
  return bytes;
}

void write_file(const std::string& path, std::string_view bytes) {
  const HoldFileLimitSignal held;
  std::string target = path;
  struct stat found {};
  bool exists = false;
  for (int links = 0; links <= kMostLinks; ++links) {
    exists = stat(target.c_str(), &found) == 0;
    if (!exists && errno != ENOENT) fail("writing", path);
    const std::optional<std::string> link = link_at(target);
    if (const auto fd = link ? descriptor_named(target) : std::nullopt) {
      if (!write_all(*fd, bytes)) fail("writing", path);
      return;
    }
    if (exists && !S_ISREG(found.st_mode)) return write_in_place(target, bytes);
    if (!link) break;
    target = link->starts_with('/') ? *link : folder_of(target) + "/" + *link;
  }
  if (exists && access(target.c_str(), W_OK) != 0) fail("writing", path);
  replace(target, bytes, exists ? &found : nullptr);
}

}  // namespace plimsoll
