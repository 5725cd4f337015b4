#include "tests/pack/instances.h"

#include <algorithm>

namespace plimsoll::pack {
namespace {

bool alive_at(const Buffer& buffer, int64_t time) {
  if (time < buffer.first || time >= buffer.end) return false;
  return std::none_of(buffer.gaps.begin(), buffer.gaps.end(),
                      [&](const Gap& gap) { return gap.first <= time && time < gap.end; });
}

bool meet(const Buffer& a, const Buffer& b) {
  for (int64_t time = std::max(a.first, b.first); time < std::min(a.end, b.end); ++time) {
    if (alive_at(a, time) && alive_at(b, time)) return true;
  }
  return false;
}

// In order of rising offsets each buffer of a best packing rests on those before it, so trying each order of putting
// buffers on top of those placed meets one.
class Exhaustive {
 public:
  explicit Exhaustive(const Buffers& buffers) : buffers_(buffers), offsets_(buffers.size(), -1) {
    for (const Buffer& a : buffers) {
      meets_.emplace_back();
      for (const Buffer& b : buffers) meets_.back().push_back(meet(a, b));
    }
  }

  bool exists_below(int64_t limit) {
    limit_ = limit;
    return live_load() < limit && descend(0, 0);
  }

 private:
  bool descend(size_t placed, int64_t from) {
    if (placed == buffers_.size()) return true;
    if (someone_is_too_high()) return false;
    for (size_t i = 0; i < buffers_.size(); ++i) {
      if (offsets_[i] >= 0) continue;
      const int64_t offset = resting_offset(i);
      if (offset < from || offset + buffers_[i].bytes >= limit_) continue;
      offsets_[i] = offset;
      const bool found = descend(placed + 1, offset);
      offsets_[i] = -1;
      if (found) return true;
    }
    return false;
  }

  int64_t live_load() const {
    int64_t most = 0;
    for (const Buffer& at : buffers_) {
      for (int64_t time = at.first; time < at.end; ++time) {
        int64_t load = 0;
        for (const Buffer& buffer : buffers_) load += alive_at(buffer, time) ? buffer.bytes : 0;
        most = std::max(most, load);
      }
    }
    return most;
  }

  bool someone_is_too_high() const {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      if (offsets_[i] < 0 && resting_offset(i) + buffers_[i].bytes >= limit_) return true;
    }
    return false;
  }

  int64_t resting_offset(size_t i) const {
    int64_t top = 0;
    for (size_t j = 0; j < buffers_.size(); ++j) {
      if (offsets_[j] >= 0 && meets_[i][j]) top = std::max(top, offsets_[j] + buffers_[j].bytes);
    }
    if (buffers_[i].fixed_offset) return *buffers_[i].fixed_offset >= top ? *buffers_[i].fixed_offset : -1;
    return (top + buffers_[i].alignment - 1) / buffers_[i].alignment * buffers_[i].alignment;
  }

  const Buffers& buffers_;
  std::vector<std::vector<bool>> meets_;
  std::vector<int64_t> offsets_;
  int64_t limit_ = 0;
};

struct Rectangle {
  int64_t first, end, low, high;
};

void cut(std::mt19937_64& random, const Rectangle& r, int64_t count, Buffers& pieces) {
  const bool can_cut_time = r.end - r.first >= 2;
  const bool can_cut_bytes = r.high - r.low >= 2;
  if (count == 1 || (!can_cut_time && !can_cut_bytes)) {
    pieces.push_back({.bytes = r.high - r.low, .first = r.first, .end = r.end, .fixed_offset = r.low});
    return;
  }
  const int64_t left = between(random, 1, count - 1);
  Rectangle a = r;
  Rectangle b = r;
  if (can_cut_time && (!can_cut_bytes || random() % 2 == 0)) {
    a.end = b.first = between(random, r.first + 1, r.end - 1);
  } else {
    a.high = b.low = between(random, r.low + 1, r.high - 1);
  }
  cut(random, a, left, pieces);
  cut(random, b, count - left, pieces);
}

void add_spice(std::mt19937_64& random, Buffer& buffer, const Spice& spice) {
  if (spice.alignments && random() % 2 == 0) buffer.alignment = between(random, 1, 4);
  if (spice.fixed && random() % 5 == 0) buffer.fixed_offset = between(random, 0, 10) * buffer.alignment;
  if (spice.gaps && buffer.end - buffer.first >= 3 && random() % 2 == 0) {
    const int64_t first = between(random, buffer.first, buffer.end - 2);
    const int64_t end = between(random, first + 1, buffer.end - 1);
    buffer.gaps.push_back({first, end});
    if (first == buffer.first && end == buffer.end) buffer.gaps.clear();
  }
}

}  // namespace

Buffers random_buffers(std::mt19937_64& random, int64_t count, const Spice& spice) {
  const int64_t times = between(random, 2, 12);
  const int64_t largest = between(random, 1, 12);
  Buffers buffers;
  for (int64_t i = 0; i < count; ++i) {
    Buffer buffer{.bytes = between(random, 1, largest), .first = between(random, 0, times - 1)};
    buffer.end = between(random, buffer.first + 1, times);
    add_spice(random, buffer, spice);
    buffers.push_back(buffer);
  }
  return buffers;
}

Buffers planted_in_place(std::mt19937_64& random, int64_t count, int64_t times, int64_t bytes) {
  Buffers pieces;
  cut(random, {0, times, 0, bytes}, count, pieces);
  std::shuffle(pieces.begin(), pieces.end(), random);
  return pieces;
}

Buffers planted(std::mt19937_64& random, int64_t count, int64_t times, int64_t bytes) {
  Buffers pieces = planted_in_place(random, count, times, bytes);
  for (Buffer& piece : pieces) piece.fixed_offset.reset();
  return pieces;
}

Buffers crowded(std::mt19937_64& random, int64_t times, int64_t capacity) {
  Buffers buffers;
  std::vector<int64_t> loads(times);
  for (int64_t tries = 25 * times; tries > 0; --tries) {
    Buffer buffer{.bytes = between(random, 1, capacity / 2), .first = between(random, 0, times - 1)};
    buffer.end = std::min(times, buffer.first + between(random, 1, 6));
    const auto begin = loads.begin() + buffer.first;
    const auto end = loads.begin() + buffer.end;
    if (*std::max_element(begin, end) + buffer.bytes > capacity) continue;
    std::for_each(begin, end, [&](int64_t& load) { load += buffer.bytes; });
    buffers.push_back(buffer);
  }
  return buffers;
}

Buffers training_step(std::mt19937_64& random, int64_t layers) {
  Buffers buffers;
  const int64_t steps = 2 * layers + 2;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const int64_t backward = steps - 1 - layer;
    const int64_t activation = between(random, 1, 4096) * 512;
    const int64_t weight = between(random, 1, 512) * 512;
    buffers.push_back({.bytes = weight, .first = 0, .end = steps});
    buffers.push_back({.bytes = activation, .first = layer, .end = backward + 1});
    buffers.push_back({.bytes = between(random, 1, 1024) * 512, .first = layer, .end = layer + 1});
    buffers.push_back({.bytes = activation, .first = backward, .end = backward + 2});
    buffers.push_back({.bytes = weight, .first = backward, .end = steps});
  }
  return buffers;
}

bool packing_exists_below(const Buffers& buffers, int64_t limit) { return Exhaustive(buffers).exists_below(limit); }

}  // namespace plimsoll::pack
