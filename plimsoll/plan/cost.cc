#include "plimsoll/plan/cost.h"

#include <algorithm>

namespace plimsoll::plan {

std::vector<double> roofline_seconds(const kernels::Lowered& lowered, const Roofline& machine) {
  std::vector<double> seconds;
  for (const kernels::LoweredOp& op : lowered.ops) {
    const double compute = static_cast<double>(op.flops) / (machine.flops_per_s * lowered.threads);
    const double traffic = static_cast<double>(op.bytes) / machine.bytes_per_s;
    seconds.push_back(op.kernel.bind ? machine.op_s + std::max(compute, traffic) : 0);
  }
  return seconds;
}

}  // namespace plimsoll::plan
