#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <vector>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/spill_file.h"
#include "plimsoll/train/measure.h"

namespace plimsoll::train {
namespace {

constexpr int64_t kCopyBytes = 4 * kMiB;
constexpr int64_t kCopies = 16;  // to the file, and back

struct CopySeconds {
  double disk = 0;
  double processor = 0;
};

double seconds_of_all_threads() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// Of one MiB, one way.
CopySeconds seconds_to_copy(const std::string& folder) {
  SpillFile file(folder);
  std::vector<std::byte> memory(kCopyBytes, std::byte{1});
  const int64_t room = file.region(kCopies * kCopyBytes);
  const auto start = std::chrono::steady_clock::now();
  const double processor = seconds_of_all_threads();
  SpillFile::Job last = 0;
  for (int64_t i = 0; i < kCopies; ++i) last = file.write(memory.data(), kCopyBytes, room + i * kCopyBytes);
  for (int64_t i = 0; i < kCopies; ++i) last = file.read(memory.data(), kCopyBytes, room + i * kCopyBytes);
  file.wait(last);
  constexpr double kCopied = static_cast<double>(2 * kCopies * kCopyBytes) / static_cast<double>(kMiB);
  const std::chrono::duration<double> copied = std::chrono::steady_clock::now() - start;
  return {copied.count() / kCopied, (seconds_of_all_threads() - processor) / kCopied};
}

}  // namespace

plan::SpillOptions measure_spill(const std::string& folder, plan::CostTable& table) {
  const std::string disk = fmt::format("spill of 1 MiB in {}", folder);
  const std::string processor = disk + ", of the processor";
  if (!table.contains(disk) || !table.contains(processor)) {
    const CopySeconds measured = seconds_to_copy(folder);
    table[disk] = {measured.disk, 0, kMiB, plan::today()};
    table[processor] = {measured.processor, 0, kMiB, plan::today()};
  }
  constexpr double kLeast = 1e-9;
  return {.bytes_per_s = static_cast<double>(kMiB) / std::max(table[disk].seconds, kLeast),
          .processor_s_per_byte = table[processor].seconds / static_cast<double>(kMiB)};
}

}  // namespace plimsoll::train
