// CSV data: any text is a source whose every sample can be read or is a DataError, or an InputError.
#include <cstdlib>
#include <string_view>
#include <vector>

#include "plimsoll/base/error.h"
#include "plimsoll/train/data/formats.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  try {
    const auto source = train::data::csv_source({reinterpret_cast<const char*>(data), size}, "fuzz", nullptr, {});
    std::vector<std::byte> x(static_cast<size_t>(source->fields()[0].spec.bytes()));
    std::vector<std::byte> label(static_cast<size_t>(source->fields()[1].spec.bytes()));
    const std::vector<std::span<std::byte>> into = {x, label};
    for (int64_t i = 0; i < source->size(); ++i) {
      try {
        source->read(i, 0, into);
      } catch (const train::data::DataError&) {
      }
    }
  } catch (const InputError&) {
  }
  return 0;
}
