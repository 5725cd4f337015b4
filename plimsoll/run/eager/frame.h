// The values of a program while its ops run one by one: each is let go after the op that reads it last.
#pragma once

#include <vector>

#include "plimsoll/run/eager/engine.h"

namespace plimsoll::eager {

// For each value the op that reads it last, -1 for none. Values that are `kept` outlast all ops.
std::vector<int32_t> last_reads(const program::Program& program, std::span<const program::Value> kept);

class Frame {
 public:
  enum class Placing : uint8_t {
    dynamic,     // views where operands in place allow them, in place where nobody else reads the operand
    as_program,  // every value lies as the program says
  };

  // All must outlive the frame.
  Frame(Engine& engine, const program::Program& program, const std::vector<int32_t>& last_reads, Placing placing)
      : engine_(engine), program_(program), last_reads_(last_reads), placing_(placing), data_(program.values.size()) {}

  void set(program::Value value, Data data) { at(value) = std::move(data); }
  const Data& get(program::Value value) const { return data_[static_cast<size_t>(value.index)]; }

  // From op `first` to the last. In `category`, or as the program says of each value when nothing.
  void run(size_t first, std::optional<Category> category);

 private:
  Data& at(program::Value value) { return data_[static_cast<size_t>(value.index)]; }
  std::vector<Data> take_inputs(size_t op);
  std::vector<Place> places(const program::Op& op, std::span<const Data> inputs) const;
  Place own_place(const program::Op& op, size_t k, std::span<const Data> inputs) const;

  Engine& engine_;
  const program::Program& program_;
  const std::vector<int32_t>& last_reads_;
  Placing placing_;
  std::vector<Data> data_;  // by value
};

}  // namespace plimsoll::eager
