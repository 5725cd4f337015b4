// The graph of a step for Graphviz: ops as boxes by phase, what comes in as ovals, bytes on the edges.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/program/program.h"

namespace plimsoll::report {

// `dot -Tsvg` draws it. The program must be bound.
std::string dot_graph(const program::Program& program, std::string_view title);

}  // namespace plimsoll::report
