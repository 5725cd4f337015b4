#include "plimsoll/program/evaluate.h"

namespace plimsoll::program {

void register_layout_reference(OpTable& table) {
  table.reference("reorder", [](auto& run) {
    run.out().reals = run.reals(0);
    run.out().ints = run.ints(0);
  });
}

}  // namespace plimsoll::program
