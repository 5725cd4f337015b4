// Finds the next place where any of a few fixed texts begins, skipping most bytes unread (Wu-Manber): a window as long
// as the shortest text slides over the input, and the two bytes at its end say how far it may jump.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace plimsoll::explain {

class Needles {
 public:
  // At most 32 texts of at least 4 bytes each, which live as long as this.
  explicit Needles(std::vector<std::string_view> texts);

  // Where in `haystack` the first text at or after `from` begins; npos when there is none.
  size_t find(std::string_view haystack, size_t from) const;

  // Bytes at the end of a haystack in which a text may be cut in two.
  size_t longest() const { return longest_; }

 private:
  static uint32_t slot(const char* pair) {
    return (static_cast<uint8_t>(pair[0]) * 37u + static_cast<uint8_t>(pair[1]) * 1031u) & 4095u;
  }
  bool matches(std::string_view rest, uint32_t candidates) const;

  std::vector<std::string_view> texts_;
  size_t window_ = 0;  // of the shortest text
  size_t longest_ = 0;
  std::array<uint8_t, 4096> shift_{};        // by the slot of the window's last two bytes
  std::array<uint32_t, 4096> candidates_{};  // where the shift is 0: the texts that may begin here, as bits
};

}  // namespace plimsoll::explain
