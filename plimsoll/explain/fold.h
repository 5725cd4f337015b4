// One failure, one diagnosis. Ranks of one job fail together, a launcher and a scheduler report the kill that the
// kernel reports too, a retry says the same again: such diagnoses become one that says where and how often it was seen.
#pragma once

#include <vector>

#include "plimsoll/explain/diagnosis.h"

namespace plimsoll::explain {

std::vector<Diagnosis> fold(std::vector<Diagnosis> diagnoses);

// {"rank0", "rank1", "rank2", "rank5"} -> "ranks 0-2, 5"; other labels as they are.
std::string ranks_text(const std::vector<std::string>& ranks);

}  // namespace plimsoll::explain
