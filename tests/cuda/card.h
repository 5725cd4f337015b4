// What the tests of CUDA run on: a card where there is one; on paper, compiling only, where PLIMSOLL_CUDA_PAPER names
// an architecture ("sm_90"); nothing otherwise.
#pragma once

namespace plimsoll {

bool has_card();

}  // namespace plimsoll
