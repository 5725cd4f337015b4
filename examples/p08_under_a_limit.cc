// P8: under a limit that holds [384,192] in f16 but not in f32: the f32 tensor fails with a report of who holds what,
// the f16 tensor succeeds, and the process goes on.
#include <fmt/format.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/run/eager/host.h"

namespace {

using namespace plimsoll;
using eager::Tensor;

constexpr int64_t kBudget = 512 * kKiB;

Tensor make(eager::Context& context, DType dtype) {
  const TensorSpec spec{dtype, {384, 192}};
  Tensor tensor = context.empty(spec, "fc.out", Category::activation);
  fmt::print("{:<14} allocated, {} of {} in use\n", spec.text(), format_bytes(context.pool().stats().live_bytes),
             format_bytes(kBudget));
  return tensor;
}

// Whether the tensor is refused, with a report that adds up.
bool is_refused(eager::Context& context) {
  try {
    make(context, DType::f32);
    return false;
  } catch (const ResourceExhausted& error) {
    fmt::print("\n{}\n", error.what());
    return error.report().live_bytes == context.pool().stats().live_bytes &&
           error.report().requested_bytes == 384 * 192 * 4;
  }
}

}  // namespace

int main() {
  eager::Host host({kBudget, "this example"});
  eager::Context& context = host.context();
  Tensor weight = context.parameter("fc.weight", {DType::f32, {192, 384}});
  if (!is_refused(context)) return 1;
  make(context, DType::f16);
  const float sum = weight.slice(0, 0, 2).sum().item();  // what there was is as it was
  weight = {};
  make(context, DType::f32);  // the process goes on, and now f32 fits too
  return sum == 0 && host.pool().stats().live_bytes == 0 ? 0 : 1;
}
