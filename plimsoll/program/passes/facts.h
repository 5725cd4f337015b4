// What passes ask of a program. Facts are of the program as it was when they were made; make new ones after a change.
#pragma once

#include <string_view>
#include <vector>

#include "plimsoll/program/op.h"

namespace plimsoll::program {

class Facts {
 public:
  explicit Facts(const Program& program);

  const Program& program() const { return program_; }
  const Type& type(Value value) const { return program_[value].type; }

  // The op that makes the value, and its place; nullptr and -1 for what comes in.
  const Op* maker(Value value) const;
  int32_t produced_at(Value value) const { return produced_at_[at(value)]; }
  // The maker when it is an op of this name.
  const Op* produced_by(Value value, std::string_view op) const;

  bool is_output(Value value) const { return outputs_[at(value)]; }
  // How often ops and the caller read the value itself; reading a view of it is not counted.
  int readers(Value value) const { return readers_[at(value)]; }

  // The last op that touches the value's storage; INT32_MAX where it stays to the end of the step.
  int32_t last_touch(Value value) const { return last_touch_[at(program_[value].storage)]; }
  // Whether an op puts new content into the value's storage.
  bool is_overwritten(Value value) const { return overwritten_[at(program_[value].storage)]; }

 private:
  static size_t at(Value value) { return static_cast<size_t>(value.index); }
  void look_at(int32_t place);

  const Program& program_;
  std::vector<int32_t> produced_at_;
  std::vector<int> readers_;
  std::vector<bool> outputs_;
  std::vector<int32_t> last_touch_;  // of owners
  std::vector<bool> overwritten_;    // of owners
};

// An attribute of an op by its name, which the op must have.
const Attribute& attribute(const Op& op, std::string_view name);

// Whether the op only shows its operand in another way: no memory, no work.
bool is_view(const Program& program, const Op& op);

// For values that others now stand for (`same_as`, by value; nothing: itself): what lived in their storages lives in
// those of their replacements.
void move_storages(Program& program, const std::vector<Value>& same_as);

}  // namespace plimsoll::program
