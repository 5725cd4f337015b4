#include "plimsoll/device/communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace plimsoll::device {
namespace {

// One number of each rank, in their order.
std::vector<int64_t> gather_numbers(Communicator& ranks, int64_t value) {
  std::vector<int64_t> all(static_cast<size_t>(ranks.ranks()));
  all[static_cast<size_t>(ranks.rank())] = value;
  ranks.all_gather(DType::i64, reinterpret_cast<std::byte*>(all.data()), ranks.ranks());
  return all;
}

uint64_t hash_of(const std::string& text) {
  uint64_t hash = 14695981039346656037U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

}  // namespace

int64_t shard_elements(int64_t elements, int ranks) { return (elements + ranks - 1) / ranks; }

Shard shard_of(int64_t elements, int ranks, int rank) {
  const int64_t size = shard_elements(elements, ranks);
  return {std::min(elements, rank * size), std::min(elements, (rank + 1) * size)};
}

Shard samples_of(int64_t batch, int ranks, int rank) {
  const int64_t least = batch / ranks;
  const int64_t larger = batch % ranks;
  const int64_t first = rank * least + std::min<int64_t>(rank, larger);
  return {first, first + least + (rank < larger ? 1 : 0)};
}

double sum_over(Communicator& ranks, double value) {
  ranks.all_reduce(DType::f64, reinterpret_cast<std::byte*>(&value), 1);
  return value;
}

int64_t least_over(Communicator& ranks, int64_t value) {
  const std::vector<int64_t> all = gather_numbers(ranks, value);
  return *std::min_element(all.begin(), all.end());
}

int64_t most_over(Communicator& ranks, int64_t value) {
  const std::vector<int64_t> all = gather_numbers(ranks, value);
  return *std::max_element(all.begin(), all.end());
}

std::string broadcast_text(Communicator& ranks, std::string text) {
  auto size = static_cast<int64_t>(text.size());
  ranks.broadcast(std::as_writable_bytes(std::span(&size, 1)), 0);
  text.resize(static_cast<size_t>(size));
  ranks.broadcast(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

void require_same_text(Communicator& ranks, const std::string& text, const std::string& what) {
  const std::vector<int64_t> all = gather_numbers(ranks, static_cast<int64_t>(hash_of(text)));
  std::vector<size_t> other;
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) other.push_back(rank);
  }
  if (other.empty()) return;
  throw RankError(
      fmt::format("{} differ between ranks: rank {} has others than rank 0; start the same program with the "
                  "same options on every machine",
                  what, fmt::join(other, ", ")));
}

}  // namespace plimsoll::device
