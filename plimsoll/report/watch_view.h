// What `plimsoll watch` shows: a reading of processes, limit and cards as text, as a line and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/device/cuda/nvml.h"
#include "plimsoll/memory/process_tree.h"

namespace plimsoll::report {

struct WatchReading {
  double seconds = 0;        // since the start
  std::string subject = {};  // "python train.py", "process 1234", "this machine"
  TreeMemory tree = {};      // no processes: the machine alone is watched
  LimitUse limit = {};
  std::vector<cuda::CardMemory> cards = {};
  double bytes_per_second = 0;              // of what is used under the limit
  std::optional<double> seconds_left = {};  // until the limit, as it goes on
};

// Lines for a terminal: figures, a bar for the limit and for each card, a graph of `history` (bytes that the
// processes held) and the warning, no wider than `columns`.
std::vector<std::string> watch_view(const WatchReading& reading, const std::vector<int64_t>& history, int columns,
                                    bool colour);

// One line, for logs.
std::string watch_line(const WatchReading& reading);

nlohmann::ordered_json watch_json(const WatchReading& reading);

}  // namespace plimsoll::report
