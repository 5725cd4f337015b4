#include "plimsoll/memory/free_index.h"

#include <algorithm>
#include <bit>

namespace plimsoll {
namespace {

// Without branches, here and below: the outcome cannot be predicted.
bool before(const FreeBlock& a, const FreeBlock& b) {
  return (a.bytes < b.bytes) | ((a.bytes == b.bytes) & (a.address < b.address));
}

// std::lower_bound.
template <typename Iterator>
Iterator first_not_before(Iterator begin, Iterator end, const FreeBlock& block) {
  auto length = end - begin;
  while (length > 1) {
    const auto half = length / 2;
    begin += before(begin[half - 1], block) ? half : 0;
    length -= half;
  }
  return begin + (length == 1 && before(*begin, block) ? 1 : 0);
}

}  // namespace

size_t SortedBlocks::chunk_for(const FreeBlock& block) const {
  return static_cast<size_t>(first_not_before(lasts_.begin(), lasts_.end(), block) - lasts_.begin());
}

const FreeBlock* SortedBlocks::first_of_at_least(int64_t bytes) const {
  const FreeBlock wanted{.bytes = bytes};
  const size_t index = chunk_for(wanted);
  return index == chunks_.size() ? nullptr : first_not_before(chunks_[index]->begin(), chunks_[index]->end(), wanted);
}

void SortedBlocks::insert(const FreeBlock& block) {
  if (chunks_.empty()) {
    chunks_.push_back(std::make_unique<Chunk>());
    lasts_.emplace_back();
  }
  size_t index = std::min(chunk_for(block), chunks_.size() - 1);
  if (chunks_[index]->count == Chunk::kMost) {
    split(index);
    if (before(lasts_[index], block)) ++index;
  }
  Chunk& chunk = *chunks_[index];
  FreeBlock* place = first_not_before(chunk.begin(), chunk.end(), block);
  std::copy_backward(place, chunk.end(), chunk.end() + 1);
  *place = block;
  ++chunk.count;
  lasts_[index] = chunk.end()[-1];
}

void SortedBlocks::erase(const FreeBlock& block) {
  const size_t index = chunk_for(block);
  Chunk& chunk = *chunks_[index];
  FreeBlock* place = first_not_before(chunk.begin(), chunk.end(), block);
  std::copy(place + 1, chunk.end(), place);
  if (--chunk.count > 0) {
    lasts_[index] = chunk.end()[-1];
    return;
  }
  chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(index));
  lasts_.erase(lasts_.begin() + static_cast<std::ptrdiff_t>(index));
}

void SortedBlocks::split(size_t index) {
  const auto after = static_cast<std::ptrdiff_t>(index) + 1;
  chunks_.insert(chunks_.begin() + after, std::make_unique<Chunk>());
  lasts_.insert(lasts_.begin() + after, lasts_[index]);
  Chunk& left = *chunks_[index];
  Chunk& right = *chunks_[index + 1];
  constexpr size_t kHalf = Chunk::kMost / 2;
  std::copy(left.begin() + kHalf, left.end(), right.begin());
  left.count = kHalf;
  right.count = Chunk::kMost - kHalf;
  lasts_[index] = left.end()[-1];
}

void SortedBlocks::append_to(std::vector<FreeBlock>& all) const {
  for (const auto& chunk : chunks_) all.insert(all.end(), chunk->begin(), chunk->end());
}

// By the first bit and the three after it.
size_t FreeIndex::bin_of(int64_t bytes) {
  const auto size = static_cast<uint64_t>(bytes);
  if (size < 8) return size;
  const auto shift = static_cast<size_t>(std::bit_width(size)) - 4;
  return (shift + 1) * 8 + (size >> shift & 7);
}

size_t FreeIndex::first_used(size_t bin) const {
  uint64_t bits = used_bins_[bin / 64] >> (bin % 64) << (bin % 64);
  size_t word = bin / 64;
  while (bits == 0 && ++word < used_bins_.size()) bits = used_bins_[word];
  return word * 64 + (bits == 0 ? 0 : static_cast<size_t>(std::countr_zero(bits)));
}

void FreeIndex::insert(const FreeBlock& block) {
  const size_t bin = bin_of(block.bytes);
  if (bin >= bins_.size()) bins_.resize(bin + 1);
  bins_[bin].insert(block);
  used_bins_[bin / 64] |= uint64_t{1} << (bin % 64);
}

void FreeIndex::erase(const FreeBlock& block) {
  const size_t bin = bin_of(block.bytes);
  bins_[bin].erase(block);
  if (bins_[bin].empty()) used_bins_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
}

const FreeBlock* FreeIndex::best_fit(int64_t bytes) const {
  const size_t wanted = bin_of(bytes);
  const size_t bin = first_used(wanted);
  if (bin == kBins) return nullptr;
  if (bin > wanted) return &bins_[bin].first();
  if (const FreeBlock* block = bins_[bin].first_of_at_least(bytes)) return block;
  const size_t next = first_used(bin + 1);
  return next == kBins ? nullptr : &bins_[next].first();
}

int64_t FreeIndex::largest_bytes() const {
  for (size_t bin = bins_.size(); bin-- > 0;) {
    if (!bins_[bin].empty()) return bins_[bin].last().bytes;
  }
  return 0;
}

std::vector<FreeBlock> FreeIndex::all() const {
  std::vector<FreeBlock> blocks;
  for (const SortedBlocks& bin : bins_) bin.append_to(blocks);
  return blocks;
}

}  // namespace plimsoll
