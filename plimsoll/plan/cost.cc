#include "plimsoll/plan/cost.h"

#include <algorithm>

#include "plimsoll/program/op.h"

namespace plimsoll::plan {

bool is_conv(const program::Op& op) { return op.def->name.starts_with("conv"); }

double roofline_seconds(const Work& work, int threads, const Roofline& machine) {
  const double flops_per_s = (work.is_conv ? machine.conv_flops_per_s : machine.flops_per_s) * threads;
  const double compute = static_cast<double>(work.flops) / flops_per_s;
  const double traffic = static_cast<double>(work.bytes) / machine.bytes_per_s;
  return machine.op_s + std::max(compute, traffic);
}

std::vector<double> roofline_seconds(const kernels::Lowered& lowered, const Roofline& machine) {
  std::vector<double> seconds;
  for (size_t i = 0; i < lowered.ops.size(); ++i) {
    const kernels::LoweredOp& op = lowered.ops[i];
    const Work work{op.flops, op.bytes, is_conv(lowered.program.ops[i])};
    seconds.push_back(op.kernel.bind ? roofline_seconds(work, lowered.threads, machine) : 0);
  }
  return seconds;
}

}  // namespace plimsoll::plan
