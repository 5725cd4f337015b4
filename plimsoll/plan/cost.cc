#include "plimsoll/plan/cost.h"

#include <algorithm>

namespace plimsoll::plan {

double roofline_seconds(int64_t flops, int64_t bytes, int threads, const Roofline& machine) {
  const double compute = static_cast<double>(flops) / (machine.flops_per_s * threads);
  const double traffic = static_cast<double>(bytes) / machine.bytes_per_s;
  return machine.op_s + std::max(compute, traffic);
}

std::vector<double> roofline_seconds(const kernels::Lowered& lowered, const Roofline& machine) {
  std::vector<double> seconds;
  for (const kernels::LoweredOp& op : lowered.ops) {
    seconds.push_back(op.kernel.bind ? roofline_seconds(op.flops, op.bytes, lowered.threads, machine) : 0);
  }
  return seconds;
}

}  // namespace plimsoll::plan
