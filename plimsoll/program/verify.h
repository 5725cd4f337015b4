// Checks what must hold in every program. Shares no code with the Builder, so that passes and readers can be held to
// it.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/program/program.h"

namespace plimsoll::program {

// One sentence for each rule that is broken, naming the value: places and names that do not exist, names given twice,
// two writers of a value, use before definition, cycles, types that are not what the op infers, attributes against the
// schema, storages and views that are not what the op says, old content read after it was overwritten.
std::vector<std::string> find_problems(const Program& program);

// Throws ArgumentError with the problems, if any.
void verify(const Program& program);

// Also demands that no symbol is left: what planning and running need. Names a value and its symbol.
void verify_bound(const Program& program);

}  // namespace plimsoll::program
