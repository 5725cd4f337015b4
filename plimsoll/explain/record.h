// How to record what explain needs, in one place: the lines that a user adds to a program so that a snapshot is written
// at the moment memory runs out.
#pragma once

#include <string_view>

namespace plimsoll::explain {

// Python, for PyTorch 2.0 and later on CUDA and ROCm; a few lines with a line break after each.
std::string_view recording_snippet();

}  // namespace plimsoll::explain
