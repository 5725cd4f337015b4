// Trace files of any form. Reading knows the form by content: binary, CSV, or CSV in gzip.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/trace/trace.h"

namespace plimsoll::trace {

// InputError where the file makes no sense, SystemError where it cannot be read.
Trace read(const std::string& path);
Trace parse(std::string_view bytes, const std::string& source);  // `source` names the input in errors

// CSV when `path` ends in .csv or .csv.gz, binary otherwise.
void write(const Trace& trace, const std::string& path);

}  // namespace plimsoll::trace
