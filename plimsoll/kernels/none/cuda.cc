// Stands for the CUDA kernels in a build that has none.
#include "plimsoll/base/error.h"
#include "plimsoll/kernels/device.h"

namespace plimsoll::kernels {

const KernelTable& cuda_kernels() {
  throw UnsupportedError("this build of plimsoll has no kernels for cuda; it can run on cpu");
}

}  // namespace plimsoll::kernels
