#include "plimsoll/explain/needles.h"

#include <algorithm>
#include <utility>

namespace plimsoll::explain {

Needles::Needles(std::vector<std::string_view> texts) : texts_(std::move(texts)) {
  const auto shorter = [](auto a, auto b) { return a.size() < b.size(); };
  window_ = std::min_element(texts_.begin(), texts_.end(), shorter)->size();
  longest_ = std::max_element(texts_.begin(), texts_.end(), shorter)->size();
  shift_.fill(static_cast<uint8_t>(std::min<size_t>(window_ - 2, 255)));
  for (size_t n = 0; n < texts_.size(); ++n) {
    for (size_t i = 0; i + 2 < window_; ++i) {
      uint8_t& shift = shift_[slot(texts_[n].data() + i)];
      shift = std::min(shift, static_cast<uint8_t>(std::min<size_t>(window_ - 3 - i, 255)));
    }
    uint8_t& first = first_[slot(texts_[n].data() + window_ - 3)];
    next_.push_back(first);
    first = static_cast<uint8_t>(n + 1);
  }
}

size_t Needles::find(std::string_view haystack, size_t from) const {
  const char* data = haystack.data();
  for (size_t end = from + window_; end <= haystack.size();) {
    const uint32_t at = slot(data + end - 3);
    if (shift_[at] == 0 && matches(haystack.substr(end - window_), first_[at])) return end - window_;
    end += std::max<uint8_t>(shift_[at], 1);
  }
  return std::string_view::npos;
}

bool Needles::matches(std::string_view rest, uint8_t candidate) const {
  for (; candidate != 0; candidate = next_[candidate - 1u]) {
    const std::string_view text = texts_[candidate - 1u];
    if (rest[0] == text[0] && rest.starts_with(text)) return true;
  }
  return false;
}

}  // namespace plimsoll::explain
