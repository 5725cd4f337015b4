#include "plimsoll/program/evaluate.h"

namespace plimsoll::program {

void register_optimizer_reference(OpTable& table) {
  table.reference("sgd", [](auto& run) {
    const auto rate = run.reals(2)[0];
    for (size_t i = 0; i < run.reals(0).size(); ++i) run.out().reals[i] = run.reals(0)[i] - rate * run.reals(1)[i];
  });
}

}  // namespace plimsoll::program
