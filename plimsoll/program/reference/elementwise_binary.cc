#include "plimsoll/program/evaluate.h"

namespace plimsoll::program {
namespace {

template <class Numbers>
void sum(const Numbers& x, const Numbers& z, Numbers& y) {
  for (size_t i = 0; i < y.size(); ++i) y[i] = x[i] + z[i];
}

}  // namespace

void register_elementwise_binary_reference(OpTable& table) {
  table.reference("add", [](auto& run) {
    sum(run.reals(0), run.reals(1), run.out().reals);
    sum(run.ints(0), run.ints(1), run.out().ints);
  });
}

}  // namespace plimsoll::program
