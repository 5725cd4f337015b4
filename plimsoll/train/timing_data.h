// What kernels are timed on: values as in a run, for on zeros alone every branch goes the same way.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plimsoll/base/spec.h"
#include "plimsoll/device/device.h"

namespace plimsoll::train {

// Numbers around zero, in memory of the device that has room for them; on return they are there. Integers stay as they
// are: they may be indices, and 0 is one of every range.
void fill_with_numbers(device::Device& device, device::Stream& stream, std::byte* at, const TensorSpec& spec);

// Indices below `range`, of rows that gradients are summed into: spread as in a run, where all in one would be summed
// one after the other.
void fill_with_indices(device::Device& device, std::byte* at, const TensorSpec& spec, int64_t range);

}  // namespace plimsoll::train
