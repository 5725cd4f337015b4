// Whole files in and out. SystemError, with the path and the reason, when the system refuses.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

std::string read_file(const std::string& path);

// Writes to a neighbour first and renames it, so that `path` is never left half written.
void write_file(const std::string& path, std::string_view bytes);

}  // namespace plimsoll
