#include <algorithm>
#include <cmath>

#include "plimsoll/program/evaluate.h"

namespace plimsoll::program {

void register_constant_reference(OpTable& table) {
  table.reference("fill", [](auto& run) {
    const double value = run.call.real("value");
    auto& y = run.out();
    std::fill(y.reals.begin(), y.reals.end(), value);
    if (y.ints.empty()) return;  // infinities have no whole number
    const double whole = y.dtype == DType::boolean ? value != 0 : std::floor(value);
    std::fill(y.ints.begin(), y.ints.end(), static_cast<int64_t>(whole));
  });
}

}  // namespace plimsoll::program
