// Any bytes as an ONNX file: a model, or an error with a message.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "plimsoll/base/error.h"
#include "plimsoll/models/onnx/load.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto info = plimsoll::models::parse_onnx(bytes, "fuzz.onnx");
    info.build({.training = true}, plimsoll::models::Size::full);
  } catch (const plimsoll::Error&) {  // NOLINT: that is the contract
  }
  return 0;
}
