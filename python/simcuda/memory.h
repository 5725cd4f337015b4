// Device memory of the simulated card: addresses alone. They are reserved, never backed, so that a host access to them
// faults as it would on a machine with a card. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plimsoll::simcuda {

// Null when the addresses are used up (32 TiB, or what the address space limit leaves).
void* reserve_device(size_t bytes);
void release_device(void* address);
bool is_device(const void* address);
int64_t device_bytes_in_use();

}  // namespace plimsoll::simcuda
