// What a bound program will take, before it runs: the arena that holds every buffer of the step, what is in it at its
// peak, and how full it is from op to op.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/base/category.h"
#include "plimsoll/base/spec.h"
#include "plimsoll/kernels/prepare.h"
#include "plimsoll/plan/placement.h"
#include "plimsoll/program/program.h"

namespace plimsoll::plan {

// By category, in the order of kAllCategories.
using CategoryBytes = std::array<int64_t, kAllCategories.size()>;

struct LiveTensor {
  std::string name;
  TensorSpec spec;
  Category category = Category::other;
  int64_t bytes = 0;
};

// An op of the step as a moment in time.
struct PeakPoint {
  int32_t op = 0;    // its place in the program
  std::string what;  // "conv %layer1.0.conv1"; empty for a program without ops
  program::Phase phase = program::Phase::forward;
};

struct Estimate {
  // The packed arena: all buffers at aligned offsets, none of those alive together sharing a byte.
  int64_t peak_bytes = 0;
  bool optimal = false;  // no smaller arena exists for these buffers in this order of ops

  int64_t live_peak_bytes = 0;      // the most bytes alive at one moment: no arena can be smaller
  PeakPoint peak_at;                // the first at which that many are alive
  CategoryBytes at_peak = {};       // alive at that moment; sums to live_peak_bytes
  CategoryBytes total = {};         // of all storages of the step, as if nothing were reused
  std::vector<LiveTensor> largest;  // alive at that moment, the largest first

  std::vector<int64_t> live_bytes;     // at each op
  std::vector<program::Phase> phases;  // of each op
};

struct EstimateOptions {
  int largest = 10;  // so many tensors are named
  bool in_place = true;
  std::vector<int64_t> scratch_bytes = {};  // of the kernel of each op (kernels::Lowered knows); empty: none
  PlacementOptions placement = {};
};

// ArgumentError names a value that is not bound, or says that the bytes do not fit in 63 bits.
Estimate estimate(const program::Program& program, const EstimateOptions& options = {});

// With the scratch of its kernels: peak_bytes is what an executor of it takes, to the byte.
Estimate estimate(const kernels::Lowered& lowered, EstimateOptions options = {});

}  // namespace plimsoll::plan
