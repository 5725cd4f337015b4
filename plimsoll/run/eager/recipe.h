// How the gradient of one op is computed: its rule, written down as a program that is run op by op when gradients are
// asked for. What that program reads of the op is what must be kept until then; all else may go at once.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "plimsoll/program/program.h"

namespace plimsoll::eager {

// An op as a recipe is made for it.
struct Recorded {
  const program::OpDef* def = nullptr;
  std::vector<program::Attribute> attributes;
  std::vector<program::Type> types;  // of the operands
  std::vector<bool> wants;           // whether the gradient of operand i is asked for
};

struct Recipe {
  program::Program program;               // op 0 is the op itself, with the optional results that its gradient reads
  std::vector<program::Value> operands;   // of op 0
  std::vector<program::Value> seeds;      // the gradient of result k; nothing where none arrives
  std::vector<program::Value> gradients;  // of operand i; nothing where it is zero or not asked for
  std::vector<size_t> kept;               // which of the operands and results, counted on, later ops read
  std::vector<int32_t> last_reads;        // frame.h

  const std::vector<program::Value>& results() const;
  // Operand i is part i, result k is part operands.size() + k.
  program::Value part(size_t number) const;
};

class RecipeBook {
 public:
  // The recipe for gradients that arrive at these results; for all that can have one when nothing is given.
  // ArgumentError when the op has no gradient.
  std::shared_ptr<const Recipe> find(const Recorded& op, const std::vector<bool>& arriving = {});

 private:
  static constexpr size_t kMost = 4096;  // then all are forgotten

  std::unordered_map<std::string, std::shared_ptr<const Recipe>> recipes_;
};

}  // namespace plimsoll::eager
