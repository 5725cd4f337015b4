// Normalisations that exporters take apart, put together again.
#pragma once

#include "plimsoll/program/program.h"

namespace plimsoll::program {

// (x - mean) / sqrt(variance + eps), perhaps times a weight, perhaps plus a bias, over the last dimensions becomes
// `layer_norm`; x / sqrt(mean of x * x + eps), perhaps times a weight, becomes `rms_norm`. Equal to rounding.
Program fuse_norms(Program program);

}  // namespace plimsoll::program
