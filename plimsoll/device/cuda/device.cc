// Stands for NVIDIA cards in a build that has no kernels for them.
#include "plimsoll/device/device.h"

namespace plimsoll::device {

Device& cuda_device(int /*ordinal*/) {
  throw UnsupportedError("this build of plimsoll has no kernels for cuda; it can run on cpu");
}

}  // namespace plimsoll::device
