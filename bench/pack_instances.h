// What packing is measured on: the public instances, copies of them twisted or changed, and instances made up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plimsoll/base/bytes.h"
#include "plimsoll/pack/pack.h"
#include "plimsoll/trace/trace.h"

namespace plimsoll::pack {

inline constexpr int64_t kCapacity = kMiB;  // of the public instances

inline std::filesystem::path public_instance(char name) {
  return fmt::format(PLIMSOLL_SOURCE_DIR "/../shared/data/pack/{}.1048576.csv", name);
}

// The recorded traces, by name; none where they are not there.
inline std::vector<std::filesystem::path> recorded_traces() {
  const std::filesystem::path folder = PLIMSOLL_SOURCE_DIR "/../shared/data/traces";
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::exists(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".gz") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

enum class Twist { shuffled, reversed, resized, prolonged };

// The instance with another order, with time running backwards, with a quarter of the sizes a grid step off, or with a
// quarter of the ends a little later: as hard as the original, and nothing that the solver was made with.
inline std::vector<Buffer> twisted(std::vector<Buffer> buffers, Twist twist, uint64_t seed) {
  std::mt19937_64 random(seed);
  if (twist == Twist::shuffled) std::shuffle(buffers.begin(), buffers.end(), random);
  for (Buffer& buffer : buffers) {
    if (twist == Twist::reversed) std::tie(buffer.first, buffer.end) = std::pair(-buffer.end, -buffer.first);
    const bool chosen = random() % 4 == 0;
    const int64_t step = static_cast<int64_t>(random() % 3) - 1;
    if (twist == Twist::resized && chosen) buffer.bytes = std::max(kKiB, buffer.bytes + step * kKiB);
    if (twist == Twist::prolonged && chosen) buffer.end += 1 + step;
  }
  return buffers;
}

inline int64_t live_load(const std::vector<Buffer>& buffers) {
  return pack(buffers, {.capacity = 0})->lower_bound_bytes;
}

inline constexpr Twist kTwists[] = {Twist::shuffled, Twist::reversed, Twist::resized, Twist::prolonged};

// At the capacity of the originals, or 2 % above the live load where that is more: some may not be feasible at all.
inline int64_t capacity_for(const std::vector<Buffer>& twisted) {
  return std::max(kCapacity, live_load(twisted) / 50 * 51 / kKiB * kKiB);
}

// Buffers at random for as long as the live load allows: whether they can be packed in that load is open.
inline std::vector<Buffer> crowded(std::mt19937_64& random, int64_t times, int64_t capacity) {
  std::vector<Buffer> buffers;
  std::vector<int64_t> loads(times);
  for (int64_t tries = 25 * times; tries > 0; --tries) {
    const auto first = static_cast<int64_t>(random() % times);
    const int64_t end = std::min(times, first + 1 + static_cast<int64_t>(random() % 6));
    const auto bytes = 1 + static_cast<int64_t>(random() % (capacity / 2));
    const int64_t most = *std::max_element(loads.begin() + first, loads.begin() + end);
    if (most + bytes > capacity) continue;
    for (int64_t time = first; time < end; ++time) loads[time] += bytes;
    buffers.push_back({.bytes = bytes, .first = first, .end = end});
  }
  return buffers;
}

// Weights that stay, activations that nest, gradients and scratch that come and go.
inline std::vector<Buffer> training_step(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto bytes = [&](int64_t most) { return 512 * (1 + static_cast<int64_t>(random() % most)); };
  std::vector<Buffer> buffers;
  const int64_t layers = count / 5;
  const int64_t steps = 2 * layers + 2;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const int64_t backward = steps - 1 - layer;
    const int64_t activation = bytes(4096);
    const int64_t weight = bytes(512);
    buffers.push_back({.bytes = weight, .first = 0, .end = steps});
    buffers.push_back({.bytes = activation, .first = layer, .end = backward + 1});
    buffers.push_back({.bytes = bytes(1024), .first = layer, .end = layer + 1});
    buffers.push_back({.bytes = activation, .first = backward, .end = backward + 2});
    buffers.push_back({.bytes = weight, .first = backward, .end = steps});
  }
  return buffers;
}

// Blocks of all sizes and lifetimes, as an allocator sees them.
inline std::vector<Buffer> allocator_like(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Buffer> buffers;
  for (int64_t i = 0; i < count; ++i) {
    const auto lifetime = static_cast<int64_t>(1 + (random() % 1000) * (random() % 1000) / (1 + random() % 1000));
    const int64_t size = 512 * static_cast<int64_t>(1 + (random() % 4096) / (1 + random() % 64));
    buffers.push_back({.bytes = size, .first = i, .end = i + lifetime});
  }
  return buffers;
}

// One buffer in a hundred grows or shrinks by a grid step or lives a step longer or shorter, as far as the live load
// stays within the capacity.
inline std::vector<Buffer> changed(std::vector<Buffer> buffers, uint64_t seed, int64_t capacity) {
  std::mt19937_64 random(seed);
  for (size_t changes = std::max<size_t>(buffers.size() / 100, 1); changes > 0;) {
    Buffer& buffer = buffers[random() % buffers.size()];
    const Buffer before = buffer;
    (random() % 2 == 0 ? buffer.bytes : buffer.end) += random() % 2 == 0 ? 1024 : -1024;
    if (buffer.bytes > 0 && buffer.end > buffer.first && live_load(buffers) <= capacity) {
      --changes;
    } else {
      buffer = before;
    }
  }
  return buffers;
}

// As `plimsoll pack --trace`: the index of an event is its time, and what is never freed lives to the end.
inline std::vector<Buffer> blocks_of(const trace::Trace& trace) {
  std::vector<Buffer> buffers;
  std::unordered_map<int64_t, size_t> live;
  const auto end = static_cast<int64_t>(trace.events.size());
  for (int64_t time = 0; time < end; ++time) {
    const trace::Event& event = trace.events[time];
    if (event.kind == trace::EventKind::free) {
      if (const auto block = live.extract(event.id)) buffers[block.mapped()].end = time;
    } else {
      live[event.id] = buffers.size();
      buffers.push_back({.bytes = event.bytes, .first = time, .end = end});
    }
  }
  return buffers;
}

// One block in a hundred changes its size by the allocator's grain, or its end by up to 32 events.
inline std::vector<Buffer> changed_blocks(std::vector<Buffer> buffers, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (size_t changes = buffers.size() / 100; changes > 0; --changes) {
    Buffer& buffer = buffers[random() % buffers.size()];
    if (random() % 2 == 0) {
      buffer.bytes = std::max<int64_t>(512, buffer.bytes + (random() % 2 == 0 ? 512 : -512));
    } else {
      buffer.end = std::max(buffer.first + 1, buffer.end + static_cast<int64_t>(random() % 64) - 32);
    }
  }
  return buffers;
}

}  // namespace plimsoll::pack
