// Copies to the spill file and back that go on while other ops run. Plans put them into programs (plan/rewrite.h):
//
//   %going = spill(%x)                   starts to copy x; `going` lies in the file and takes no memory
//   %gone = spill_finish(%going, %x)     x is in the file now, and its memory free to go
//   %coming = fetch(%gone)               takes memory, and starts to copy into it
//   %back = fetch_finish(%coming)        the same bits as x
//
// `at` is where in the file's region for a step, `region`, the copy lies: bytes both, the same for all four.
#pragma once

#include "plimsoll/program/op.h"

namespace plimsoll::program {

// The values of a program that lie in the spill file from `spill` on.
std::vector<Value> spilled_results(const Program& program);

}  // namespace plimsoll::program
