#include "plimsoll/kernels/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "plimsoll/base/error.h"

namespace plimsoll::kernels {

const KernelTable& kernels_of(std::string_view device) {
  if (device == "cpu" || device == "sim") return cpu_kernels();
  if (device == "cuda" || device.starts_with("cuda:")) return cuda_kernels();
  throw ArgumentError(fmt::format("there is no device {}, expected cpu or cuda", quote(device)));
}

int thread_count(const DeviceOptions& options) {
  const int most = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (options.threads < 0 || options.threads > most) {
    throw ArgumentError(fmt::format("{} threads are out of range: this machine has {}", options.threads, most));
  }
  return options.threads == 0 ? most : options.threads;
}

}  // namespace plimsoll::kernels
