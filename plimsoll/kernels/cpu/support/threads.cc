#include "plimsoll/kernels/device.h"

// Of the OpenMP runtime that oneDNN uses; declared here because its header comes with one compiler only.
extern "C" void omp_set_num_threads(int threads);

namespace plimsoll::kernels {

void use_threads(int threads) { omp_set_num_threads(threads); }

}  // namespace plimsoll::kernels
