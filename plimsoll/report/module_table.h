// A step's program by module, as torchinfo shows it: layers with their results, parameters, activations and FLOPs of
// the forward pass. Modules are told by the names of values: `layer1.0.conv1.conv` is of `layer1.0.conv1`.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/program/program.h"

namespace plimsoll::report {

struct ModuleRow {
  std::string name = {};         // "layer1.0.conv1"; an op that is of no layer has its own: "layer1.0.relu"
  int depth = 1;                 // dots in the name and one
  std::string op = {};           // of a layer: the one with the most FLOPs; empty for modules of several layers
  std::string output = {};       // the type of its last result: "f32[16,64,56,56]"
  int64_t parameters = 0;        // elements; a table that two layers share counts where it is read first
  int64_t parameter_bytes = 0;   //
  int64_t activation_bytes = 0;  // of all that its forward ops produce, views and what is written in place aside
  int64_t forward_flops = 0;
};

struct ModuleTable {
  std::vector<ModuleRow> rows;  // in the order of the forward pass, a module before what is in it; figures include that
  ModuleRow total;
};

// Rows down to `depth`. The program must be bound.
ModuleTable module_table(const program::Program& program, int depth);

std::string module_text(const ModuleTable& table);
nlohmann::ordered_json module_json(const ModuleTable& table);

// The module of a value: "h.0.mlp.c_fc" of "optimizer.h.0.mlp.c_fc.weight.mean"; empty for a name without dots.
std::string_view module_of(std::string_view value);

// 1814073344 -> "1.81 G"
std::string format_flops(int64_t flops);

}  // namespace plimsoll::report
