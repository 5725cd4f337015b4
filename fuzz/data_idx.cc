// IDX files: any input is an array whose bytes are there, or an InputError.
#include <cstdlib>

#include "plimsoll/base/error.h"
#include "plimsoll/train/data/formats.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  try {
    const auto array = train::data::parse_idx(std::as_bytes(std::span(data, size)), "fuzz");
    if (array.spec.bytes() != static_cast<int64_t>(array.values.size())) std::abort();
    if (!array.values.empty() &&
        array.values.data() + array.values.size() > reinterpret_cast<const std::byte*>(data) + size) {
      std::abort();
    }
  } catch (const InputError&) {
  }
  return 0;
}
