// Attention in bf16 on AMX tiles, by tiles as in f32 (attention.cc). A thread packs the keys and values of a head as
// the units want them, so its scratch is a few times those of one head; scores and sums are f32.
#pragma once

#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

// Whether the use, with q, k, v from operand `first` on, is computed so: bf16, whole tiles in a line.
bool attends_by_units(const KernelCall& call, int first);

Kernel units_forward(const KernelCall& call);
Kernel units_backward(const KernelCall& call);

}  // namespace plimsoll::kernels
