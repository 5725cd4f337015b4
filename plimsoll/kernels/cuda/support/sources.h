// The texts in kernels/cuda/source, embedded by the build.
#pragma once

#include <string_view>
#include <vector>

namespace plimsoll::kernels::cuda {

// ArgumentError for a name that is none.
std::string_view kernel_source(std::string_view name);

std::vector<std::string_view> kernel_source_names();

}  // namespace plimsoll::kernels::cuda
