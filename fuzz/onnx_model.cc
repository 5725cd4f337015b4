// Any bytes as an ONNX file: a model, or an error with a message.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "fuzz/onnx_mutator.h"
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

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

// Of bytes now and then, else of the message.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned int seed) {
  onnx::ModelProto model;
  google::protobuf::LogSilencer silence;
  if (seed % 8 == 0 || !model.ParsePartialFromArray(data, static_cast<int>(size))) {
    return LLVMFuzzerMutate(data, size, most);
  }
  OnnxMutator(seed).mutate(model);
  const std::string bytes = model.SerializePartialAsString();
  if (bytes.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
