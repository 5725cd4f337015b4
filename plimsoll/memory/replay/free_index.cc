#include "plimsoll/memory/replay/free_index.h"

#include <algorithm>

namespace plimsoll::replay {
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

size_t FreeIndex::chunk_for(const FreeBlock& block) const {
  return static_cast<size_t>(first_not_before(lasts_.begin(), lasts_.end(), block) - lasts_.begin());
}

std::optional<uint32_t> FreeIndex::take_best_fit(int64_t bytes) {
  const FreeBlock wanted{.bytes = bytes};
  const size_t index = chunk_for(wanted);
  if (index == chunks_.size()) return std::nullopt;
  FreeBlock* place = first_not_before(chunks_[index]->begin(), chunks_[index]->end(), wanted);
  const uint32_t block = place->block;
  erase_at(index, place);
  return block;
}

void FreeIndex::insert(const FreeBlock& block) {
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

void FreeIndex::erase(const FreeBlock& block) {
  const size_t index = chunk_for(block);
  erase_at(index, first_not_before(chunks_[index]->begin(), chunks_[index]->end(), block));
}

void FreeIndex::erase_at(size_t index, FreeBlock* place) {
  Chunk& chunk = *chunks_[index];
  std::copy(place + 1, chunk.end(), place);
  if (--chunk.count > 0) {
    lasts_[index] = chunk.end()[-1];
    return;
  }
  chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(index));
  lasts_.erase(lasts_.begin() + static_cast<std::ptrdiff_t>(index));
}

void FreeIndex::split(size_t index) {
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

std::vector<FreeBlock> FreeIndex::all() const {
  std::vector<FreeBlock> blocks;
  for (const auto& chunk : chunks_) blocks.insert(blocks.end(), chunk->begin(), chunk->end());
  return blocks;
}

}  // namespace plimsoll::replay
