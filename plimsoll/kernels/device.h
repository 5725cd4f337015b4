// The devices that programs can run on. One that this build has no kernels for is there, too, and says so when asked.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

struct DeviceOptions {
  std::string device = "cpu";
  int threads = 0;             // of the CPU; 0 for all that the machine has
  bool least_scratch = false;  // where a faster way takes more scratch, take the other: for a tight budget
  // Compute in bf16 as machines with AMX tiles do, or as those without; where not said, as this machine is. What has
  // no units has something slow stand in for them: for tests.
  std::optional<bool> amx_tiles = {};
};

// ArgumentError for a device that is none, UnsupportedError for one that was not built.
const KernelTable& kernels_of(std::string_view device);

const KernelTable& cpu_kernels();
// Kernels for ops of one's own (program::add_ops). ArgumentError when the table is in use already.
void add_cpu_kernels(void (*add)(KernelTable&));
const KernelTable& cuda_kernels();

// How many threads the options ask for. ArgumentError when that is negative or more than the machine has.
int thread_count(const DeviceOptions& options);

// What times of kernels are of, and are kept under: the processor as the system names it, and where the environment
// limits the instructions that kernels use (PLIMSOLL_MAX_ISA), that limit.
std::string machine_id();

// Sets the process-wide number of threads, for kernels of ours and of libraries alike.
void use_threads(int threads);

}  // namespace plimsoll::kernels
