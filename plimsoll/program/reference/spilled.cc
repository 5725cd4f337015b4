#include <type_traits>

#include "plimsoll/program/evaluate.h"

namespace plimsoll::program {

// The values are those of the plain op, wherever they lie.
void register_spilled_reference(OpTable& table) {
  for (const char* name : {"momentum", "adam", "adamw", "lion"}) {
    table.reference(std::string(name) + "_spilled", [plain = &table.get(name)](auto& run) {
      if constexpr (std::is_same_v<std::decay_t<decltype(run)>, Run<double>>) {
        plain->reference_f64(run);
      } else {
        plain->reference_f32(run);
      }
    });
  }
}

}  // namespace plimsoll::program
