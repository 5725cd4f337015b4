// Finds the next place where any of a few fixed texts begins, skipping most bytes unread (Wu-Manber): a window as long
// as the shortest text slides over the input, and the three bytes at its end say how far it may jump.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace plimsoll::explain {

class Needles {
 public:
  // At most 255 texts of at least 4 bytes each, which live as long as this. The longer the shortest, the faster.
  explicit Needles(std::vector<std::string_view> texts);

  // Where in `haystack` the first text at or after `from` begins; npos when there is none.
  size_t find(std::string_view haystack, size_t from) const;

  // Bytes at the end of a haystack in which a text may be cut in two.
  size_t longest() const { return longest_; }

 private:
  static constexpr size_t kSlots = 1 << 13;
  static uint32_t slot(const char* three) {
    return (static_cast<uint8_t>(three[0]) * 37u + static_cast<uint8_t>(three[1]) * 1031u +
            static_cast<uint8_t>(three[2]) * 331u) &
           (kSlots - 1);
  }
  bool matches(std::string_view rest, uint8_t candidate) const;

  std::vector<std::string_view> texts_;
  size_t window_ = 0;  // of the shortest text
  size_t longest_ = 0;
  std::array<uint8_t, kSlots> shift_{};  // by the slot of the window's last three bytes
  std::array<uint8_t, kSlots> first_{};  // where the shift is 0: one more than the first text that may begin here
  std::vector<uint8_t> next_;            // and one more than the next after each
};

}  // namespace plimsoll::explain
