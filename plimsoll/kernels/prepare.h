// From a bound program to one that a device can run: every op with its kernel, its scratch and its cost. Plans are made
// of this; the executor runs it.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/kernels/device.h"
#include "plimsoll/program/program.h"

namespace plimsoll::kernels {

struct LoweredOp {
  Kernel kernel;      // nothing to bind: the op only shows what is there (a view), or there are no elements
  int64_t flops = 0;  // arithmetic operations
  int64_t bytes = 0;  // read and written when nothing is cached
};

struct Lowered {
  program::Program program;
  std::vector<LoweredOp> ops;  // one for each of the program's
  std::string device = "cpu";
  int threads = 1;

  // What was decided for all ops together, see blocking.h and Use.
  std::vector<bool> blocked_values = {};
  std::vector<bool> blocked_ops = {};
  int64_t spare_bytes = 0;
  bool least_scratch = false;
  bool amx_tiles = false;

  std::vector<int64_t> scratch_bytes() const;  // of each op
};

// Pure: the same program and options give the same kernels. UnsupportedError names the first op that the device has no
// kernel for, or not for these dtypes; ArgumentError a value that is not bound.
Lowered prepare(program::Program program, const DeviceOptions& options = {});

// An op of a prepared program again, with only those of its results that are `made`: plans run ops a second time for
// some of what they made.
LoweredOp prepare_again(const Lowered& lowered, size_t op, const std::vector<bool>& made);

// An op that a plan adds to a prepared program: `op` is of `program`, which need not have it yet.
LoweredOp prepare_added(const Lowered& lowered, const program::Program& program, const program::Op& op);

// One use of an op that writes something, as `prepare` does each of a program's: for ops that run one by one. The
// kernel has no need of `use` or its call afterwards.
Kernel prepare_call(KernelCall call, const DeviceOptions& options);

}  // namespace plimsoll::kernels
