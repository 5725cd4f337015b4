#include "plimsoll/kernels/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "plimsoll/base/error.h"

namespace plimsoll::kernels {
namespace {

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "unknown";
}

}  // namespace

std::string machine_id() {
  const char* limit = std::getenv("PLIMSOLL_MAX_ISA");
  const bool is_limited = limit != nullptr && *limit != '\0';
  return processor_name() + (is_limited ? fmt::format(", at most {}", limit) : "");
}

const KernelTable& kernels_of(std::string_view device) {
  if (device == "cpu") return cpu_kernels();
  if (device == "cuda") return cuda_kernels();
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
