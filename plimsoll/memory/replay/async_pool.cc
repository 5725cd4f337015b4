#include "plimsoll/memory/replay/async_pool.h"

#include <algorithm>
#include <iterator>

#include "plimsoll/base/bytes.h"

namespace plimsoll::replay {
namespace {

constexpr int64_t kRounding = 512;
constexpr int64_t kChunk = 32 * kMiB;

// The chunks that an extent lies in: first, and one after the last.
struct ChunkRange {
  int64_t first, end;
};
ChunkRange chunks_under(int64_t address, int64_t bytes) {
  return {address / kChunk, align_up(address + bytes, kChunk) / kChunk};
}

}  // namespace

void AsyncPool::allocate(uint32_t slot, int64_t bytes, int16_t) {
  ++calls_;
  const int64_t rounded = align_up(std::max<int64_t>(bytes, 1), kRounding);
  const Extent extent{place(rounded), rounded};
  back(extent);
  if (slot >= blocks_.size()) blocks_.resize(slot + 1);
  blocks_[slot] = extent;
}

void AsyncPool::free(uint32_t slot) {
  ++calls_;
  count_block(blocks_[slot], -1);
  add_hole(blocks_[slot]);
}

int64_t AsyncPool::place(int64_t bytes) {
  const auto found = find_hole(bytes);
  if (found == holes_.end()) return extend(bytes);
  const int64_t address = found->first;
  const Hole hole = take_hole(found);
  if (hole.bytes > bytes) {
    holes_[address + bytes] = {hole.bytes - bytes, hole.freed};
    holes_by_time_[hole.freed] = address + bytes;
  }
  return address;
}

AsyncPool::Holes::iterator AsyncPool::find_hole(int64_t bytes) {
  auto without_memory = holes_.end();
  for (const auto& [freed, address] : holes_by_time_) {
    const auto hole = holes_.find(address);
    if (hole->second.bytes < bytes) continue;
    if (is_backed({address, bytes})) return hole;
    if (without_memory == holes_.end()) without_memory = hole;
  }
  return without_memory;
}

// A hole at the end of the range is part of what is added.
int64_t AsyncPool::extend(int64_t bytes) {
  int64_t address = range_end_;
  if (!holes_.empty()) {
    const auto last = std::prev(holes_.end());
    if (last->first + last->second.bytes == range_end_) {
      address = last->first;
      take_hole(last);
    }
  }
  range_end_ = address + bytes;
  chunks_.resize(static_cast<size_t>(align_up(range_end_, kChunk) / kChunk));
  return address;
}

void AsyncPool::add_hole(Extent extent) {
  auto after = holes_.lower_bound(extent.address);
  if (after != holes_.end() && after->first == extent.end()) {
    const auto joined = after++;
    extent.bytes += take_hole(joined).bytes;
  }
  if (after != holes_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second.bytes == extent.address) {
      extent = {before->first, before->second.bytes + extent.bytes};
      take_hole(before);
    }
  }
  holes_[extent.address] = {extent.bytes, calls_};
  holes_by_time_[calls_] = extent.address;
}

AsyncPool::Hole AsyncPool::take_hole(Holes::iterator hole) {
  const Hole taken = hole->second;
  holes_by_time_.erase(taken.freed);
  holes_.erase(hole);
  return taken;
}

bool AsyncPool::is_backed(Extent extent) const {
  const auto [first, end] = chunks_under(extent.address, extent.bytes);
  return std::all_of(chunks_.begin() + first, chunks_.begin() + end,
                     [](const Chunk& chunk) { return chunk.is_backed; });
}

void AsyncPool::count_block(Extent extent, int32_t change) {
  const auto [first, end] = chunks_under(extent.address, extent.bytes);
  for (int64_t i = first; i < end; ++i) {
    Chunk& chunk = chunks_[static_cast<size_t>(i)];
    chunk.blocks += change;
    if (chunk.blocks == 0 && chunk.is_backed) spare_.insert(i);
    if (chunk.blocks > 0) spare_.erase(i);
  }
}

void AsyncPool::back(Extent extent) {
  count_block(extent, +1);
  int64_t moved = 0;
  const auto [first, end] = chunks_under(extent.address, extent.bytes);
  for (int64_t i = first; i < end; ++i) {
    Chunk& chunk = chunks_[static_cast<size_t>(i)];
    if (chunk.is_backed) continue;
    if (spare_.empty()) {
      take_chunk(extent.bytes);
    } else {
      const auto last = std::prev(spare_.end());
      chunks_[static_cast<size_t>(*last)].is_backed = false;
      spare_.erase(last);
      ++moved;
    }
    chunk.is_backed = true;
  }
  stats_.pages_remapped += moved * kChunk / device_.page_bytes;
  stats_.remapping_allocations += moved > 0 ? 1 : 0;
}

void AsyncPool::take_chunk(int64_t requested_bytes) {
  if (reserved_bytes_ + kChunk > device_.capacity.bytes) {
    OomReport report;
    report.requested_bytes = requested_bytes;
    report.device = "simulated";
    report.allocator = name();
    report.budget = device_.capacity;
    report.reserved_bytes = reserved_bytes_;
    for (const auto& [address, hole] : holes_) {
      report.largest_free_bytes = std::max(report.largest_free_bytes, hole.bytes);
    }
    throw ResourceExhausted(std::move(report));
  }
  reserved_bytes_ += kChunk;
  stats_.reserved_peak_bytes = std::max(stats_.reserved_peak_bytes, reserved_bytes_);
  stats_.pages_committed += align_up(kChunk, device_.page_bytes) / device_.page_bytes;
}

}  // namespace plimsoll::replay
