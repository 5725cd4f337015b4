// Lines that speak of running out of memory and do not report it: prose, code, lists of changes, tests that passed. A
// reader that knows a wording claims it wherever it stands, so its claims are held against this.
#pragma once

#include <string_view>

namespace plimsoll::explain {

bool is_talk(std::string_view line);

}  // namespace plimsoll::explain
