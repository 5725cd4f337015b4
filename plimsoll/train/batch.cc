#include "plimsoll/train/batch.h"

#include <fmt/format.h>

#include <cstring>

#include "plimsoll/base/error.h"
#include "plimsoll/run/floats.h"

namespace plimsoll::train {
namespace {

using program::ValueInfo;

std::string names_of(const std::map<std::string, ArrayBatch::Array>& arrays) {
  std::string names;
  for (const auto& [name, array] : arrays) names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  return names.empty() ? "nothing" : names;
}

// The elements of samples [first, first + count) of an array.
template <class T>
std::span<const T> samples_of(std::span<const T> array, const ValueInfo& info, int64_t first) {
  const int64_t elements = info.type.shape.elements().constant();
  const int64_t samples = info.type.shape.empty() ? 1 : info.type.shape[0].constant();
  const int64_t each = samples == 0 ? 0 : elements / samples;
  if ((first + samples) * each > static_cast<int64_t>(array.size())) {
    throw ArgumentError(fmt::format("the batch's {} has {} elements, expected {} for {} samples of {}", info.name,
                                    array.size(), (first + samples) * each, first + samples, each));
  }
  return array.subspan(static_cast<size_t>(first * each), static_cast<size_t>(elements));
}

}  // namespace

void ArrayBatch::read(const program::Program& program, program::Value input, int64_t first,
                      std::span<std::byte> into) const {
  const ValueInfo& info = program[input];
  const auto found = arrays_.find(info.name);
  if (found == arrays_.end()) {
    throw ArgumentError(fmt::format("the batch has no array for the input {} ({}); it has {}", info.name,
                                    info.type.text(), names_of(arrays_)));
  }
  const DType dtype = info.type.dtype;
  const auto* floats = std::get_if<std::span<const float>>(&found->second);
  const auto* integers = std::get_if<std::span<const int64_t>>(&found->second);
  if (floats != nullptr && is_floating(dtype) && dtype != DType::f64) {
    return run::write_rounded(dtype, samples_of(*floats, info, first), into);
  }
  if (integers != nullptr && dtype == DType::i64) {
    const auto samples = samples_of(*integers, info, first);
    std::memcpy(into.data(), samples.data(), samples.size_bytes());
    return;
  }
  throw ArgumentError(fmt::format("the batch's {} is an array of {}, expected values for {}", info.name,
                                  floats != nullptr ? "float" : "int64", info.type.text()));
}

}  // namespace plimsoll::train
