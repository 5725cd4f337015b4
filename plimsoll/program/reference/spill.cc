#include "plimsoll/program/evaluate.h"

namespace plimsoll::program {

// Wherever it lies, it is the same.
void register_spill_reference(OpTable& table) {
  for (const char* name : {"spill", "spill_finish", "fetch", "fetch_finish"}) {
    table.reference(name, [](auto& run) { run.out() = run.in(0); });
  }
}

}  // namespace plimsoll::program
