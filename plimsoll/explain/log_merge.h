// Which reports of a log are one failure told again.
#pragma once

#include <string_view>

#include "plimsoll/explain/failure.h"

namespace plimsoll::explain {

// The same told again: more lines of one report, a second try with less, the exception after the allocator's log. Then
// what `later` adds is in `known`, and the answer is true.
bool merge_failure(const Failure& later, Failure& known);

// A notebook or a chained exception tells the same message twice, in different wrapping.
bool same_message(std::string_view a, std::string_view b);

}  // namespace plimsoll::explain
