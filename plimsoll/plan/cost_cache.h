// Times of ops as they were measured on this machine, kept from run to run in the user's cache folder.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plimsoll/kernels/prepare.h"

namespace plimsoll::plan {

struct MeasuredOp {
  double seconds = 0;
  int64_t flops = 0;  // as kernels::LoweredOp has them
  int64_t bytes = 0;

  bool operator==(const MeasuredOp&) const = default;
};

// By cost_key.
using CostTable = std::map<std::string, MeasuredOp>;

// What the time of an op depends on: the op, its attributes, how its operands lie, which results are made, threads.
std::string cost_key(const kernels::Lowered& lowered, int32_t op);

struct Costs {
  std::vector<double> seconds;  // of each op of the program
  double measured_s = 0;        // of ops in the table
  double scaled_s = 0;     // of ops that the table has in another size: by roofline, and how far off that was there
  double estimated_s = 0;  // of the others, by roofline
};

Costs costs_of(const kernels::Lowered& lowered, const CostTable& table);

// $XDG_CACHE_HOME/plimsoll/costs.json, or under ~/.cache; empty when neither is known.
std::string cost_cache_path();

struct LoadedCosts {
  CostTable table;
  std::string note;  // why the file was not used, to be told; empty when it was or there is none
};

// A file that cannot be read, or is not a table of this version and this machine, is ignored.
LoadedCosts load_costs(const std::string& path);

// Makes the folder if need be. SystemError when the system refuses.
void save_costs(const std::string& path, const CostTable& table);

}  // namespace plimsoll::plan
