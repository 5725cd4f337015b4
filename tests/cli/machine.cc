#include "tests/cli/machine.h"

#include "plimsoll/kernels/cpu/support/dnnl.h"

bool machine_multiplies_bytes() { return plimsoll::kernels::dnnl_multiplies_bytes(); }
