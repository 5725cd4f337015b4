// Logs: whatever the bytes, findings whose evidence adds up and which have a remedy or say why not.
#include <cstdlib>

#include "plimsoll/explain/explain.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  using namespace plimsoll::explain;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Input input;
  input.log = read_log(*open_memory(bytes, "fuzz"));
  for (const Diagnosis& diagnosis : explain::explain(input, "fuzz").diagnoses) {
    if (diagnosis.remedies.empty() && diagnosis.no_remedy.empty()) abort();
    for (const Account& account : diagnosis.accounts) {
      int64_t sum = 0;
      for (const Holder& part : account.parts) sum += part.bytes;
      if (sum != account.total_bytes) abort();
    }
  }
  return 0;
}
