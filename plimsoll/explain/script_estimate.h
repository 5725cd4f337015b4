// What a script of PyTorch would take on a card, from the allocations of a run of it on a simulated one.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plimsoll/explain/card.h"
#include "plimsoll/trace/trace.h"

namespace plimsoll::explain {

// A way to do with less: replayed, not guessed.
struct ReplayedWay {
  std::string key;
  std::string what;
  std::string how;
  int64_t reserved_bytes = 0;
};

struct ScriptEstimate {
  Card card;
  nlohmann::ordered_json result;  // what the script's process wrote
  bool fits = false;
  std::vector<ReplayedWay> ways;
  std::vector<std::string> cards_that_fit;
};

// The result of the process that reserved most, of those that left one in `folder`: data loaders and launchers leave
// files as well. Empty when there is none.
std::filesystem::path largest_result(const std::filesystem::path& folder);

// `trace` against `card`, all of `cards` and other allocators.
ScriptEstimate estimate_script(const trace::Trace& trace, nlohmann::ordered_json result, const Card& card,
                               const std::vector<Card>& cards);

}  // namespace plimsoll::explain
