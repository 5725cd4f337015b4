// Any text is either buffers, which then pack and pass the oracle, or an InputError.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "plimsoll/base/error.h"
#include "plimsoll/pack/csv.h"
#include "plimsoll/pack/oracle.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  try {
    const pack::Table table = pack::parse_csv({reinterpret_cast<const char*>(data), size}, "fuzz");
    const pack::Result result = pack::pack(table.buffers, {.node_limit = 100});
    if (!result) abort();  // without a capacity, and with fixed offsets checked by the reader, there is always one
    if (pack::find_fault(table.buffers, result->offsets, result->peak_bytes)) abort();
    pack::parse_csv(pack::to_csv(table, result->offsets), "back");
  } catch (const InputError&) {
  } catch (const ArgumentError&) {  // sizes that add up too far with their alignments
  }
  return 0;
}
