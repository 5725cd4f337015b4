#include "plimsoll/device/gather.h"

#include <algorithm>

namespace plimsoll::device {
namespace {

// Values of one size of each rank, this one's where shard_of says.
template <class T>
std::vector<T> gather(Communicator& ranks, DType dtype, const std::vector<T>& own) {
  std::vector<T> all(own.size() * static_cast<size_t>(ranks.ranks()));
  std::ranges::copy(own, all.begin() + static_cast<std::ptrdiff_t>(own.size()) * ranks.rank());
  ranks.all_gather(dtype, reinterpret_cast<std::byte*>(all.data()), static_cast<int64_t>(all.size()));
  return all;
}

}  // namespace

std::vector<std::vector<double>> gather_values(Communicator& ranks, const std::vector<double>& values) {
  const std::vector<double> all = gather(ranks, DType::f64, values);
  std::vector<std::vector<double>> of_ranks;
  for (auto first = all.begin(); of_ranks.size() < static_cast<size_t>(ranks.ranks());) {
    const auto end = first + static_cast<std::ptrdiff_t>(values.size());
    of_ranks.emplace_back(first, end);
    first = end;
  }
  return of_ranks;
}

std::vector<std::string> gather_texts(Communicator& ranks, const std::string& text) {
  const std::vector<int64_t> sizes = gather<int64_t>(ranks, DType::i64, {static_cast<int64_t>(text.size())});
  const auto most = static_cast<size_t>(*std::max_element(sizes.begin(), sizes.end()));
  std::vector<std::string> texts(sizes.size());
  if (most == 0) return texts;
  std::vector<char> own(most);
  std::copy(text.begin(), text.end(), own.begin());
  const std::vector<char> all = gather(ranks, DType::i8, own);
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    texts[rank].assign(all.data() + rank * most, static_cast<size_t>(sizes[rank]));
  }
  return texts;
}

}  // namespace plimsoll::device
