// gzip in memory, for the files that come compressed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll {

bool is_gzip(std::string_view bytes);  // by its first two bytes

// What could be inflated, and what stopped it when that is not all: the reader knows its own lines and offsets, so it
// raises the error.
struct Inflated {
  struct Fault {
    int64_t offset = 0;   // in the compressed bytes
    std::string message;  // "the gzip data ends early"
  };
  std::string bytes;
  std::optional<Fault> fault;
};

// Inflates one gzip member after another. Past `most_bytes` of output it stops with a fault.
Inflated gunzip(std::string_view bytes, int64_t most_bytes = int64_t{8} << 30);

std::string gzip(std::string_view bytes);

}  // namespace plimsoll
