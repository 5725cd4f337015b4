#include "memory.h"

#include <sys/mman.h>

#include <mutex>
#include <optional>
#include <unordered_map>

#include "plimsoll/memory/replay/device_addresses.h"

namespace plimsoll::simcuda {
namespace {

constexpr size_t kPage = size_t{2} << 20;
constexpr size_t kMostSpace = size_t{32} << 40;
constexpr size_t kLeastSpace = size_t{64} << 30;

struct Space {
  char* begin = nullptr;
  char* end = nullptr;
  std::optional<replay::DeviceAddresses> addresses;
  std::unordered_map<void*, size_t> blocks;
  int64_t bytes_in_use = 0;
  std::mutex mutex;

  Space() {
    for (size_t bytes = kMostSpace; bytes >= kLeastSpace; bytes /= 2) {
      void* found = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (found == MAP_FAILED) continue;
      begin = static_cast<char*>(found);
      end = begin + bytes;
      addresses.emplace(reinterpret_cast<intptr_t>(begin), reinterpret_cast<intptr_t>(end));
      return;
    }
  }
};

Space& space() {
  static Space the_space;
  return the_space;
}

}  // namespace

void* reserve_device(size_t bytes) {
  Space& all = space();
  const std::lock_guard lock(all.mutex);
  const size_t rounded = (bytes + kPage - 1) / kPage * kPage;
  const int64_t found = all.addresses ? all.addresses->take(static_cast<int64_t>(rounded)) : -1;
  if (found < 0) return nullptr;
  void* const address = reinterpret_cast<void*>(found);
  all.blocks[address] = rounded;
  all.bytes_in_use += static_cast<int64_t>(rounded);
  return address;
}

void release_device(void* address) {
  Space& all = space();
  const std::lock_guard lock(all.mutex);
  const auto found = all.blocks.find(address);
  if (found == all.blocks.end()) return;
  all.bytes_in_use -= static_cast<int64_t>(found->second);
  all.addresses->give_back(reinterpret_cast<intptr_t>(address), static_cast<int64_t>(found->second));
  all.blocks.erase(found);
}

bool is_device(const void* address) {
  const Space& all = space();
  return address >= all.begin && address < all.end;
}

int64_t device_bytes_in_use() {
  Space& all = space();
  const std::lock_guard lock(all.mutex);
  return all.bytes_in_use;
}

}  // namespace plimsoll::simcuda
