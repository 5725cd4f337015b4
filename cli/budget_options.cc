#include "cli/budget_options.h"

#include "cli/console.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/device/device.h"
#include "plimsoll/memory/limits.h"

namespace plimsoll::cli {

Budget read_budget(const BudgetOptions& options, const std::string& device) {
  const device::Device& where = device::find_device(device);
  if (!where.traits().is_host) {
    const Budget card = where.budget();
    if (options.budget == "auto") return {card.bytes + where.overhead_bytes(), card.source};
    return {parse_bytes(options.budget), "--budget"};
  }
  if (options.strict || options.budget == "auto") return parse_budget(options.budget, "--budget");
  const int64_t bytes = parse_bytes(options.budget);
  if (bytes == 0) throw ArgumentError("--budget is zero: expected a size like 2GiB, or auto");
  const Budget machine = machine_budget();
  if (bytes > machine.bytes) {
    tell("plimsoll: --budget is {}, but this machine has {} to give ({})\n", format_bytes(bytes),
         format_bytes(machine.bytes), machine.source);
  }
  return {bytes, "--budget"};
}

}  // namespace plimsoll::cli
