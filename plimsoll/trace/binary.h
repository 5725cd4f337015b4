// Traces in compact binary form, about 7 bytes an event, with tags, times and the drop count. The layout is in
// docs/trace-format.md. What cannot be read is an InputError with its byte offset.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/trace/trace.h"

namespace plimsoll::trace {

bool is_binary(std::string_view bytes);  // by its first bytes
Trace parse_binary(std::string_view bytes, const std::string& source);
std::string to_binary(const Trace& trace);

}  // namespace plimsoll::trace
