// The card that is simulated, as cuDNN describes a device in JSON. The file is named by PLIMSOLL_SIM_CARD.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll::simcuda {

struct Card {
  std::string json;  // whole, for cuDNN
  std::string name;
  int64_t memory_bytes;
  int version;  // 900 for sm_90
  int multiprocessors;
  int l2_bytes;
  int shared_bytes_per_block;
  int shared_bytes_per_block_optin;
  int registers_per_block;
  int threads_per_multiprocessor;
  int blocks_per_multiprocessor;

  int major() const { return version / 100; }
  int minor() const { return version % 100 / 10; }
  int sm() const { return version / 10; }
};

// Read once; ends the process with a message when the file is not there or lacks a number.
const Card& card();

}  // namespace plimsoll::simcuda
