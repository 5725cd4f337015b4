// JPEG and PNG files: any input is an image, or a DataError.
#include <array>

#include "plimsoll/train/data/image.h"
#include "plimsoll/train/data/source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll::train::data;
  const auto bytes = std::as_bytes(std::span(data, size));
  for (const int64_t channels : {1, 3}) {
    std::array<std::byte, 3 * 9 * 7> pixels;
    try {
      ImageDecoder decoder(1 << 20);
      decoder.decode(bytes, "fuzz", channels, {9, 7}, std::span(pixels).first(static_cast<size_t>(channels * 9 * 7)));
    } catch (const DataError&) {
    }
  }
  return 0;
}
