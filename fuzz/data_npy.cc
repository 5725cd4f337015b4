// NumPy's files, .npy and .npz: any input gives arrays whose bytes are there, or an InputError.
#include <cstdlib>

#include "plimsoll/base/error.h"
#include "plimsoll/train/data/npy.h"

namespace {

void touch(const plimsoll::train::data::NpyArray& array) {
  if (array.spec.bytes() != static_cast<int64_t>(array.values.size())) std::abort();
  unsigned sum = 0;
  for (const std::byte byte : array.values) sum += std::to_integer<unsigned>(byte);
  volatile unsigned kept = sum;
  static_cast<void>(kept);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    touch(train::data::parse_npy(bytes, "fuzz"));
  } catch (const InputError&) {
  }
  try {
    for (const auto& [name, array] : train::data::parse_npz(bytes, "fuzz")) touch(array);
  } catch (const InputError&) {
  }
  return 0;
}
