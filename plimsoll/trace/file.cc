#include "plimsoll/trace/file.h"

#include "plimsoll/base/file.h"
#include "plimsoll/trace/binary.h"
#include "plimsoll/trace/csv.h"

namespace plimsoll::trace {

Trace parse(std::string_view bytes, const std::string& source) {
  return is_binary(bytes) ? parse_binary(bytes, source) : parse_csv(bytes, source);
}

Trace read(const std::string& path) { return parse(read_file(path), path); }

void write(const Trace& trace, const std::string& path) {
  if (path.ends_with(".csv") || path.ends_with(".csv.gz")) return write_csv(trace, path);
  write_file(path, to_binary(trace));
}

}  // namespace plimsoll::trace
