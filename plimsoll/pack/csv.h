// Buffers as CSV, in the form of the public benchmarks: a header, then one buffer a line.
//
//   id,lower,upper,size            half-open lifetime [lower, upper), bytes
//   ...,alignment,offset,gaps      optional, in any order: a fixed offset; gaps as "3-5 9-12"; empty fields are "none"
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/pack/pack.h"

namespace plimsoll::pack {

struct Table {
  std::vector<std::string> ids;  // one per buffer, each once
  std::vector<Buffer> buffers;
};

// Reads the text of `source` (a name for messages). InputError with line, column and value for what makes no sense,
// fixed offsets that collide included.
Table parse_csv(std::string_view text, const std::string& source);
Table read_csv(const std::filesystem::path& path);  // and SystemError when it cannot be read

// The table with the column `offset`; reading it back gives the same buffers with these offsets fixed.
std::string to_csv(const Table& table, std::span<const int64_t> offsets);

}  // namespace plimsoll::pack
