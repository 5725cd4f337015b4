// Checks what must hold of every pass, by the reference evaluator, the verifier and the liveness of storages.
#pragma once

#include <functional>
#include <string>

#include "plimsoll/program/program.h"

namespace plimsoll::program {

using Pass = std::function<Program(Program)>;

// Runs the pass on a bound program and checks, through GoogleTest, that the result is well formed, writes and reads as
// text, takes no more memory at its peak (with and without results made in place), and leaves the same outputs,
// parameters and state: within `tolerance` relative to 1 or the value, whichever is larger; 0 asks for equal numbers.
Program check_pass(const Program& before, const Pass& pass, double tolerance = 0);

// The same for a program as text, with the text that is expected.
void check_pass(const std::string& before, const Pass& pass, const std::string& after, double tolerance = 0);

// The most bytes alive at a time.
int64_t peak_bytes(const Program& program, bool in_place = true);

// Reads the text and returns it as it is written, with all types.
std::string completed(const std::string& text);

}  // namespace plimsoll::program
