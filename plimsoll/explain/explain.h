// Why memory ran out, from whatever the user has: a snapshot, a log, a trace.
#pragma once

#include <memory>
#include <string>

#include "plimsoll/explain/diagnosis.h"
#include "plimsoll/explain/log.h"
#include "plimsoll/explain/snapshot.h"

namespace plimsoll::explain {

// What an input turned out to be.
enum class InputKind : uint8_t { snapshot, trace, log };

struct Input {
  InputKind kind = InputKind::log;
  Snapshot snapshot;  // of a snapshot or a trace
  LogFindings log;    // of a log
};

// Reads `path` ("-" is standard input), telling what it is by its first bytes. InputError, SystemError.
Input read_input(const std::string& path);
Input read_input(ByteSource& source);

// One diagnosis per device of a snapshot, per failure of a log.
Explanation explain(const Input& input, const std::string& source);

// What grew between two snapshots or traces. ArgumentError when one is a log.
Explanation explain_growth(const Input& before, const Input& after);

}  // namespace plimsoll::explain
