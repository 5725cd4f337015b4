#include "plimsoll/base/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "plimsoll/base/descriptor.h"
#include "plimsoll/base/error.h"

namespace plimsoll {
namespace {

// zlib reads plain files as they are, so one class serves both.
class FileSource : public ByteSource {
 public:
  explicit FileSource(const std::string& path) : name_(path == "-" ? "standard input" : path) {
    fd_ = path == "-" ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
                      : keep_apart(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd_ < 0) throw SystemError::from_errno("opening " + name_, errno);
    file_ = gzdopen(fd_, "rb");
    gzbuffer(file_, 1 << 16);  // plain files are read past it when the reader asks for twice as much at once
  }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override { gzclose(file_); }

  size_t read(char* buffer, size_t size) override {
    size_t done = 0;
    while (done < size) {
      const auto step = static_cast<unsigned>(std::min<size_t>(size - done, 1 << 30));
      const int got = gzread(file_, buffer + done, step);
      if (got < 0) fail();
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    if (done < size) check_end();
    return done;
  }

  size_t expected_bytes() const override {
    struct stat status {};
    return gzdirect(file_) != 0 && fstat(fd_, &status) == 0 ? static_cast<size_t>(status.st_size) : 0;
  }

  const std::string& name() const override { return name_; }

 private:
  // gzread reports a stream that stops in the middle only through gzerror.
  void check_end() {
    int code = Z_OK;
    gzerror(file_, &code);
    if (code != Z_OK && code != Z_STREAM_END) fail();
  }

  [[noreturn]] void fail() {
    int code = Z_OK;
    const char* what = gzerror(file_, &code);
    if (code == Z_ERRNO) throw SystemError::from_errno("reading " + name_, errno);
    throw InputError({.source = name_}, std::string("the gzip data is damaged or cut short (") + what + ")");
  }

  std::string name_;
  int fd_ = -1;  // belongs to file_
  gzFile file_ = nullptr;
};

class MemorySource : public ByteSource {
 public:
  MemorySource(std::string_view bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}

  size_t read(char* buffer, size_t size) override {
    const size_t count = std::min(size, bytes_.size());
    std::copy_n(bytes_.data(), count, buffer);
    bytes_.remove_prefix(count);
    return count;
  }

  const std::string& name() const override { return name_; }

 private:
  std::string_view bytes_;
  std::string name_;
};

class PutBackSource : public ByteSource {
 public:
  PutBackSource(std::string first, ByteSource& rest) : first_(std::move(first)), rest_(rest) {}

  size_t read(char* buffer, size_t size) override {
    const size_t count = std::min(size, first_.size() - used_);
    std::copy_n(first_.data() + used_, count, buffer);
    used_ += count;
    return count == size ? count : count + rest_.read(buffer + count, size - count);
  }

  size_t expected_bytes() const override { return rest_.expected_bytes(); }
  const std::string& name() const override { return rest_.name(); }

 private:
  std::string first_;
  size_t used_ = 0;
  ByteSource& rest_;
};

}  // namespace

std::unique_ptr<ByteSource> open_file(const std::string& path) { return std::make_unique<FileSource>(path); }

std::unique_ptr<ByteSource> open_memory(std::string_view bytes, std::string name) {
  return std::make_unique<MemorySource>(bytes, std::move(name));
}

std::unique_ptr<ByteSource> put_back(std::string first, ByteSource& rest) {
  return std::make_unique<PutBackSource>(std::move(first), rest);
}

}  // namespace plimsoll
