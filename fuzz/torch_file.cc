// Any bytes as a file of weights: tensors whose elements can be read, or an error with a message.
#include <vector>

#include "fuzz/memory_file.h"
#include "plimsoll/base/error.h"
#include "plimsoll/models/weights/archives.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryFile file(data, size);
  try {
    for (const auto& [name, tensor] : plimsoll::models::read_torch_file(file.path())) {
      std::vector<float> ends(tensor.elements() > 0 ? 1 : 0);
      tensor.read(ends, 0);
      if (!ends.empty()) tensor.read(ends, tensor.elements() - 1);
    }
  } catch (const plimsoll::Error&) {  // NOLINT: that is the contract
  }
  return 0;
}
