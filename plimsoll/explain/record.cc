#include "plimsoll/explain/record.h"

namespace plimsoll::explain {

std::string_view recording_snippet() {
  return "import torch\n"
         "\n"
         "torch.cuda.memory._record_memory_history(max_entries=1_000_000)\n"
         "torch._C._cuda_attach_out_of_memory_observer(\n"
         "    lambda device, wanted, total, free: torch.cuda.memory._dump_snapshot(f\"oom{device}.pickle\"))\n";
}

}  // namespace plimsoll::explain
