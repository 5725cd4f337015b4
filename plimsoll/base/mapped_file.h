// A file as memory, read page by page when it is looked at. Read-only; the file must not be cut short while it is
// mapped.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace plimsoll {

class MappedFile {
 public:
  // SystemError, with the path and the reason, for what cannot be opened or is no regular file.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace plimsoll
