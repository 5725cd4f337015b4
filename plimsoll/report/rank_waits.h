// What ranks waited for each other, as text and JSON (train/rank_waits.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "plimsoll/train/rank_waits.h"

namespace plimsoll::report {

// "  waited        1.234 s of 20.1 s on average for other ranks; rank 2 is slow: the others waited 31 % of .."
std::string waits_line(const train::RankWaits& waits);
// A table: those collectives in which ranks waited longest, with a column for each of the first ranks.
std::string waits_table(const train::RankWaits& waits);
nlohmann::ordered_json waits_json(const train::RankWaits& waits);

}  // namespace plimsoll::report
