// What people say of a failure that is over, or that has not happened. A program does not thank anybody.
#pragma once

#include <string_view>

namespace plimsoll::explain {

// A failure that is solved, gone, or of the past: "with a batch of 4 the CUDA out of memory error is solved, thanks".
bool is_over(std::string_view line);

// Somebody speaks of himself or to others: "my job was killed", "@tom", "has anyone".
bool is_personal(std::string_view line);

}  // namespace plimsoll::explain
