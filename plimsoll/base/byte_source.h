// Bytes from a file, standard input or memory, read in order and once. Gzip is undone on the way.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace plimsoll {

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Fills `buffer` as far as there are bytes; fewer than `size` means that the end was reached. InputError when a gzip
  // stream is cut or damaged, SystemError when the file cannot be read.
  virtual size_t read(char* buffer, size_t size) = 0;

  // How many bytes there are in all, where that is known beforehand; else 0.
  virtual size_t expected_bytes() const { return 0; }

  // The name that error messages show.
  virtual const std::string& name() const = 0;
};

// `path` is a file, plain or gzip, or "-" for standard input. SystemError when it cannot be opened.
std::unique_ptr<ByteSource> open_file(const std::string& path);

// Plain bytes; `bytes` must outlive the source.
std::unique_ptr<ByteSource> open_memory(std::string_view bytes, std::string name);

// `first`, then what `rest`, which must outlive it, still has: for readers that looked at the beginning to tell what it
// is.
std::unique_ptr<ByteSource> put_back(std::string first, ByteSource& rest);

}  // namespace plimsoll
