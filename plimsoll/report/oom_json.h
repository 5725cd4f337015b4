// A ResourceExhausted's report as JSON, with the keys that scripts can rely on.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "plimsoll/base/oom.h"

namespace plimsoll {

nlohmann::ordered_json to_json(const OomReport& report);

}  // namespace plimsoll
