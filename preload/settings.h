// What the preload library is told through the environment; `plimsoll exec --pool` sets it.
//
//   PLIMSOLL_BUDGET        size: what the process may take of each card, its context included
//   PLIMSOLL_DEVICE_USED   "0000:1b:00.0=123456,...": bytes that others held on each card before the program started
//   PLIMSOLL_EXEC_DIR      folder for reports: out-of-memory reports, traces, what was seen that does not work
//   PLIMSOLL_EVENTS        so many of the last allocations and frees are kept and written there at the end
//   PLIMSOLL_CUDA_DRIVER   another library than libcuda.so.1, for tests
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::preload {

struct Settings {
  int64_t budget_bytes = 0;  // 0: the card
  int64_t events = 0;
  std::string folder;
  std::string driver = "libcuda.so.1";
  struct Used {
    std::string bus_id;
    int64_t bytes = 0;
  };
  std::vector<Used> used_before;

  // ArgumentError for a size or a number that is none.
  static Settings from_environment();

  int64_t baseline_bytes(std::string_view bus_id) const;  // -1: not told
};

}  // namespace plimsoll::preload
