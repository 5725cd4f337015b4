// The spill file of the process, for kernels that move state through it. Like the thread count it is set once, before
// programs are prepared that need it.
#pragma once

#include <memory>

#include "plimsoll/memory/spill_file.h"

namespace plimsoll::kernels {

// Null takes it away. Kernels that were bound keep the one that they were bound with.
void use_spill_file(std::shared_ptr<SpillFile> file);

// Nothing when none is set.
std::shared_ptr<SpillFile> spill_file();

}  // namespace plimsoll::kernels
