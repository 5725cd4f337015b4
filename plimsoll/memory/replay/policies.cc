#include "plimsoll/memory/replay/policies.h"

#include <fmt/format.h>

#include <bit>

#include "plimsoll/memory/replay/async_pool.h"
#include "plimsoll/memory/replay/bfc_allocator.h"
#include "plimsoll/memory/replay/pool_policy.h"
#include "plimsoll/memory/replay/torch_allocator.h"

namespace plimsoll::replay {
namespace {

template <typename Allocator>
std::unique_ptr<Policy> make(const Device& device) {
  return std::make_unique<Allocator>(device);
}

struct Named {
  std::string_view name;
  std::unique_ptr<Policy> (*make)(const Device& device);
};
constexpr Named kPolicies[] = {
    {"pool", make<PoolPolicy>},
    {"torch", make<TorchAllocator>},
    {"async", make<AsyncPool>},
    {"bfc", make<BfcAllocator>},
};

void check(const Device& device) {
  constexpr int64_t kLeastPage = 256;
  constexpr int64_t kMostPage = int64_t{1} << 30;  // a pool lists the places of small blocks in a page
  const bool is_power = std::has_single_bit(static_cast<uint64_t>(device.page_bytes));
  if (device.page_bytes < kLeastPage || device.page_bytes > kMostPage || !is_power) {
    throw ArgumentError(fmt::format("a page cannot have {} bytes: expected a power of two from 256 to 1 GiB, like 2MiB",
                                    device.page_bytes));
  }
  if (device.capacity.bytes < 1) throw ArgumentError("a device of no capacity: expected at least 1 byte");
}

}  // namespace

std::string policy_names() {
  std::string names;
  for (const Named& policy : kPolicies) names += fmt::format("{}{}", names.empty() ? "" : ", ", policy.name);
  return names;
}

std::unique_ptr<Policy> make_policy(std::string_view name, const Device& device) {
  check(device);
  for (const Named& policy : kPolicies) {
    if (policy.name == name) return policy.make(device);
  }
  throw ArgumentError(fmt::format("no policy {}: expected one of {}", quote(name), policy_names()));
}

}  // namespace plimsoll::replay
