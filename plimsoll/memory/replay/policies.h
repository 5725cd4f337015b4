// The allocators that a trace can be replayed against, by name.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "plimsoll/memory/replay/policy.h"

namespace plimsoll::replay {

std::string policy_names();  // "pool, torch, async, bfc"

// ArgumentError for a name that is none of them, a page size that is no power of two from 256 on, or no capacity.
std::unique_ptr<Policy> make_policy(std::string_view name, const Device& device);

}  // namespace plimsoll::replay
