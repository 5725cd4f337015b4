// Batch normalisations with the sum and the ReLU that follow them.
#pragma once

#include "plimsoll/program/program.h"

namespace plimsoll::program {

// relu(batch_norm(x) + residual), with or without the residual, becomes two ops, its statistics and the pass that
// applies them, and the backward ops of ReLU and normalisation become one (ops/norm_relu.cc). For whole steps on
// devices that are bound by memory traffic: the new ops have no gradients. Values keep their places; those that are no
// longer made are left without an op. Where others read what the ReLU's backward makes, its mask lives until the
// normalisation's is done. Results may differ in rounding: what was between the ops is not rounded to its dtype.
Program fuse_norm_relus(Program program);

}  // namespace plimsoll::program
