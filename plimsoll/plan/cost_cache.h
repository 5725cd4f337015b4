// Times of ops as they were measured on this machine, kept from run to run in the user's cache folder. Processes may
// share the file: each adds what it learnt under a lock, and what was there stays.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plimsoll/kernels/prepare.h"
#include "plimsoll/plan/cost.h"

namespace plimsoll::plan {

struct MeasuredOp {
  double seconds = 0;
  int64_t flops = 0;  // as kernels::LoweredOp has them
  int64_t bytes = 0;
  int64_t day = 0;    // since 1970, on which it was measured
  int runs = 1;       // in which it was: the least of them counts
  bool quiet = true;  // false: others used the processor. Good for this process, but not kept, nor scaled from

  bool operator==(const MeasuredOp&) const = default;
};

// By cost_key.
using CostTable = std::map<std::string, MeasuredOp>;

int64_t today();

// Measured so long ago that it is measured again when there is an occasion.
bool is_stale(const MeasuredOp& op, int64_t day);

// What is known after two have measured the same: the later where a month lies between them, else the faster, and quiet
// rather than not.
MeasuredOp better_of(const MeasuredOp& a, const MeasuredOp& b);

// What the time of an op depends on: the op, its attributes, the types and layouts of its operands, which results are
// made, how much scratch it has, the device, its threads, and whether it multiplies in AMX tiles.
std::string cost_key(const kernels::Lowered& lowered, int32_t op);

// The key of a kernel by which a device is calibrated: "matmul", "conv" or "copy".
std::string calibration_key(const std::string& device, int threads, const std::string& kernel);

// By the calibration in the table, else as Roofline stands. `threads` of the device.
Roofline roofline_of(const CostTable& table, const std::string& device, int threads);

struct Costs {
  std::vector<double> seconds;  // of each op of the program
  double measured_s = 0;        // of ops in the table
  double scaled_s = 0;     // of ops that the table has in another size: by roofline, and how far off that was there
  double estimated_s = 0;  // of the others, by roofline

  double all_s() const { return measured_s + scaled_s + estimated_s; }
  // What a step of `all_s` may well take: what is not measured may be off by a factor.
  double low_s() const;
  double high_s() const;
  bool is_measured() const;  // all but a few percent
};

Costs costs_of(const kernels::Lowered& lowered, const CostTable& table);

// $XDG_CACHE_HOME/plimsoll/costs.json, or under ~/.cache; empty when neither is known.
std::string cost_cache_path();

struct LoadedCosts {
  CostTable table;
  std::string note;  // why the file was not used, to be told; empty when it was or there is none
};

// Of this machine (kernels::machine_id). A file that cannot be read, or is no table of this version, is ignored. Waits
// for nobody.
LoadedCosts load_costs(const std::string& path);

// Adds to the file what the table has and the file has not, or not as good; what is half a year old leaves it. Makes
// the folder if need be. SystemError when the system refuses, or another process holds the lock for a second.
void save_costs(const std::string& path, const CostTable& table);

}  // namespace plimsoll::plan
