// Snapshots: whatever the bytes, a diagnosis or an InputError.
#include "plimsoll/base/error.h"
#include "plimsoll/explain/explain.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  using namespace plimsoll::explain;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    Input input;
    input.kind = InputKind::snapshot;
    input.snapshot = read_torch_snapshot(*open_memory(bytes, "fuzz"));
    explain::explain(input, "fuzz");
  } catch (const plimsoll::InputError&) {
  }
  return 0;
}
