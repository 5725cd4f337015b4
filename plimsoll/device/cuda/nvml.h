// What NVIDIA's management library (NVML) tells of the cards of this machine, without starting CUDA on any: by dlopen,
// so that nothing is needed where there are none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::cuda {

// One process on a card.
struct CardProcess {
  int64_t pid = 0;
  int64_t used_bytes = 0;  // -1: the driver does not tell
};

struct CardMemory {
  std::string name;    // "NVIDIA H200"
  std::string bus_id;  // as NVML writes it; compare by normal_bus_id
  int64_t total_bytes = 0;
  int64_t used_bytes = 0;                   // by everyone
  int utilisation_percent = -1;             // of the time that a kernel ran, lately; -1: the driver does not tell
  std::vector<CardProcess> processes = {};  // that compute on it
};

// All cards, in the order of the bus; empty where there is no NVML or no card.
std::vector<CardMemory> card_memory(const std::string& library = "libnvidia-ml.so.1");

}  // namespace plimsoll::cuda
