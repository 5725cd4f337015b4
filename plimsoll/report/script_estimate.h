// What `estimate -- COMMAND` says of a script.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/explain/explain.h"
#include "plimsoll/explain/script_estimate.h"
#include "plimsoll/report/page.h"

namespace plimsoll::report {

// `command` as it was given.
std::string script_text(const explain::ScriptEstimate& found, std::string_view command);

nlohmann::ordered_json script_json(const explain::ScriptEstimate& found);

// The script's allocations, against what the card has left.
Page script_page(const explain::ScriptEstimate& found, const std::string& command, const explain::Input& input);

}  // namespace plimsoll::report
