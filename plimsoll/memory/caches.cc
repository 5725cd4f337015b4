#include "plimsoll/memory/caches.h"

#include <algorithm>
#include <fstream>

#include "plimsoll/base/bytes.h"

namespace plimsoll {

int64_t largest_cache_bytes(const std::string& root) {
  int64_t most = 0;
  for (int index = 0;; ++index) {  // "32768K"
    std::ifstream file(root + "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    int64_t size = 0;
    if (!(file >> size)) return most;
    const int unit = file.get();
    most = std::max(most, size * (unit == 'K' ? kKiB : unit == 'M' ? kMiB : 1));
  }
}

}  // namespace plimsoll
