// The device that tests of executors, eager tensors, spill and training run on: the CPU, or what PLIMSOLL_TEST_DEVICE
// says. ctest runs them on the simulated device as well, which finds what assumes a host.
#pragma once

#include <cstdlib>
#include <string>

#include "plimsoll/kernels/device.h"

namespace plimsoll {

inline std::string test_device() {
  const char* device = std::getenv("PLIMSOLL_TEST_DEVICE");
  return device == nullptr ? "cpu" : device;
}

inline bool tests_the_host() { return test_device() == "cpu"; }

inline kernels::DeviceOptions on_test_device(int threads = 0) { return {.device = test_device(), .threads = threads}; }

}  // namespace plimsoll
