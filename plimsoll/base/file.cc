#include "plimsoll/base/file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>

#include "plimsoll/base/error.h"

namespace plimsoll {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

File open(const std::string& path, const char* mode, std::string_view doing) {
  File file(std::fopen(path.c_str(), mode));
  if (!file) throw SystemError::from_errno(fmt::format("{} {}", doing, quote(path)), errno);
  return file;
}

void write_all(const std::string& path, std::string_view bytes) {
  const File file = open(path, "wb", "writing");
  const bool whole = std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size();
  if (!whole || std::fflush(file.get()) != 0) throw SystemError::from_errno("writing " + quote(path), errno);
}

}  // namespace

std::string read_file(const std::string& path) {
  constexpr size_t kFirstChunk = size_t{64} << 10;
  const File file = open(path, "rb", "reading");
  std::string bytes;
  size_t got = 0;
  do {
    bytes.resize(got == 0 ? kFirstChunk : 2 * bytes.size());
    got += std::fread(bytes.data() + got, 1, bytes.size() - got, file.get());
  } while (got == bytes.size());
  if (std::ferror(file.get()) != 0) throw SystemError::from_errno("reading " + quote(path), errno);
  bytes.resize(got);
  return bytes;
}

void write_file(const std::string& path, std::string_view bytes) {
  const std::string neighbour = fmt::format("{}.{}.tmp", path, getpid());
  try {
    write_all(neighbour, bytes);
    if (std::rename(neighbour.c_str(), path.c_str()) != 0) {
      throw SystemError::from_errno(fmt::format("writing {}", quote(path)), errno);
    }
  } catch (...) {
    std::remove(neighbour.c_str());
    throw;
  }
}

}  // namespace plimsoll
