#include "plimsoll/program/passes/common_subexpressions.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>

#include "plimsoll/program/passes/dead_code.h"
#include "plimsoll/program/passes/facts.h"

namespace plimsoll::program {
namespace {

// Values get the same number when they are the same function of the same values that come in. Numbers, not values, are
// compared, so that the end of a chain is recognised even if its first links must stay.
class Numbering {
 public:
  explicit Numbering(Program& program) : program_(program), facts_(program), numbers_(program.values.size()) {
    for (size_t i = 0; i < numbers_.size(); ++i) numbers_[i] = static_cast<int64_t>(i);
    same_as_.resize(numbers_.size());
  }

  void run() {
    for (size_t place = 0; place < program_.ops.size(); ++place) visit(static_cast<int32_t>(place));
    move_storages(program_, same_as_);
  }

 private:
  void visit(int32_t place) {
    Op& op = program_.ops[static_cast<size_t>(place)];
    const bool pure = op.def->overwrites.empty();
    std::string key = pure ? key_of(op) : std::string();
    for (Value& input : op.inputs) input = replaced(input);
    if (!pure) return;
    const auto [found, fresh] = known_.try_emplace(std::move(key), place);
    if (fresh) return;
    const Op& earlier = program_.ops[static_cast<size_t>(found->second)];
    give_numbers(op, earlier);
    if (can_stand_for(earlier, op, place)) {
      replace_outputs(op, earlier);
    } else {
      found->second = place;
    }
  }

  std::string key_of(const Op& op) const {
    std::string key = op.def->name;
    for (const Value input : op.inputs) key += fmt::format(" {}", numbers_[at(input)]);
    for (const Attribute& attribute : op.attributes) key += " " + attribute.text();
    return key;
  }

  void give_numbers(const Op& op, const Op& like) {
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      if (op.outputs[k] && like.outputs[k]) numbers_[at(op.outputs[k])] = numbers_[at(like.outputs[k])];
    }
  }

  bool can_stand_for(const Op& earlier, const Op& op, int32_t place) const {
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      if (!op.outputs[k]) continue;
      if (!earlier.outputs[k] || facts_.is_output(op.outputs[k])) return false;
      if (!can_stand_for(earlier.outputs[k], op.outputs[k], earlier.inputs == op.inputs, place)) return false;
    }
    return true;
  }

  // A view of the same storage takes nothing, and is as fresh as `later` because both read the same value. A storage
  // must still be there, and for all who read it as it was made.
  bool can_stand_for(Value earlier, Value later, bool of_same, int32_t place) const {
    const ValueInfo& one = program_[earlier];
    const ValueInfo& other = program_[later];
    if (one.category != other.category || one.view != other.view) return false;
    if (one.view) return of_same;
    if (facts_.is_overwritten(earlier) || facts_.is_overwritten(later)) return false;
    return facts_.last_touch(earlier) >= place;
  }

  void replace_outputs(const Op& op, const Op& by) {
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      if (op.outputs[k]) same_as_[at(op.outputs[k])] = by.outputs[k];
    }
  }

  Value replaced(Value value) const { return same_as_[at(value)] ? same_as_[at(value)] : value; }
  static size_t at(Value value) { return static_cast<size_t>(value.index); }

  Program& program_;
  const Facts facts_;
  std::vector<int64_t> numbers_;
  std::vector<Value> same_as_;                      // what stands for a value; nothing: itself
  std::unordered_map<std::string, int32_t> known_;  // what was computed, and the last op that did
};

}  // namespace

Program eliminate_common_subexpressions(Program program) {
  Numbering(program).run();
  return eliminate_dead_code(std::move(program));
}

}  // namespace plimsoll::program
