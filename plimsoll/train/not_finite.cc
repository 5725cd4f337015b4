#include "plimsoll/train/not_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace plimsoll::train {
namespace {

// Bits of an exponent that are all set in what is not finite.
template <class Bits>
std::optional<int64_t> first_not_finite(std::span<const std::byte> bytes, Bits exponent) {
  for (size_t at = 0; at + sizeof(Bits) <= bytes.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + at, sizeof bits);
    if ((bits & exponent) == exponent) return static_cast<int64_t>(at / sizeof(Bits));
  }
  return std::nullopt;
}

std::optional<int64_t> first_not_finite(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::f64:
      return first_not_finite<uint64_t>(bytes, 0x7FF0000000000000U);
    case DType::f32:
      return first_not_finite<uint32_t>(bytes, 0x7F800000U);
    case DType::f16:
      return first_not_finite<uint16_t>(bytes, 0x7C00U);
    case DType::bf16:
      return first_not_finite<uint16_t>(bytes, 0x7F80U);
    default:
      return std::nullopt;
  }
}

}  // namespace

NotFinite find_not_finite(run::Executor& executor, const std::vector<program::Value>& inputs, const Batch& batch,
                          int64_t first) {
  NotFinite found{.first = first};
  for (const program::Value input : inputs) {
    const program::ValueInfo& info = executor.program()[input];
    if (info.type.shape.empty()) continue;
    const int64_t samples = info.type.shape[0].constant();
    const int64_t each = std::max<int64_t>(1, info.type.shape.elements().constant() / std::max<int64_t>(1, samples));
    if (found.input.empty()) found.samples = std::max(found.samples, samples);
    executor.fill_bytes(input, [&](std::span<std::byte> into) {
      batch.read(executor.program(), input, first, into);
      const auto at = first_not_finite(info.type.dtype, into);
      if (!at || (!found.input.empty() && first + *at / each >= found.first)) return;
      found = {first + *at / each, 1, {}, info.name};
    });
  }
  found.index = batch.index_of(found.first);
  return found;
}

std::string text_of(const NotFinite& found) {
  const std::string of_data = found.index ? fmt::format(" ({} of the data)", *found.index) : "";
  if (!found.input.empty()) {
    return fmt::format("sample {} of the batch{}: its {} has values that are not finite", found.first, of_data,
                       found.input);
  }
  if (found.samples == 1) return fmt::format("sample {} of the batch{}: its inputs are finite", found.first, of_data);
  return fmt::format("samples {} to {} of the batch: their inputs are finite", found.first,
                     found.first + found.samples - 1);
}

}  // namespace plimsoll::train
