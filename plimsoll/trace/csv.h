// Traces as CSV, plain or gzip: a header that names the columns, in any order, then one line per event.
//
//   event   alloc or free                                          required
//   id      names the block; may be used again once it was freed   required
//   bytes   of the block, 1 or more, on its free too               required
//   stream  of its allocation, on its free too                     required
//   time_ns, category, tag                                         optional
//
// Empty lines are skipped, lines end in LF or CRLF, and a tag with commas, quotes or line ends stands in double quotes.
// Whatever else is found is an InputError with its line and column. What a recorder dropped is not kept by CSV.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/trace/trace.h"

namespace plimsoll::trace {

Trace read_csv(const std::string& path);

// The same from memory; gzip is known by its first bytes. `source` names the input in errors.
Trace parse_csv(std::string_view bytes, const std::string& source);

// Optional columns are written when a trace has something in them. `path` ending in .gz is compressed.
void write_csv(const Trace& trace, const std::string& path);
std::string to_csv(const Trace& trace);

}  // namespace plimsoll::trace
