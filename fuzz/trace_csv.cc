// CSV traces, plain and gzip: any input is a trace that can be written and read again, or an InputError.
#include <cstdlib>
#include <string_view>

#include "plimsoll/base/error.h"
#include "plimsoll/trace/csv.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  try {
    const std::string text = trace::to_csv(trace::parse_csv({reinterpret_cast<const char*>(data), size}, "fuzz"));
    if (trace::to_csv(trace::parse_csv(text, "again")) != text) std::abort();
  } catch (const InputError& error) {
    if (error.place().source == "again") std::abort();
  }
  return 0;
}
