// A Program is one whole step as data: values, the ops that make them in the order they run, and what comes in, stays
// and goes out. Everything that takes memory is a value of it. Plain data: copied, compared by its text (text.h),
// checked by verify.h, made by builder.h. Values and ops are named by their place in the vectors.
//
// Memory is explicit. Every value lives in a storage, named by the value that owns it:
//  - most values own theirs, laid out in row-major order;
//  - a view (reshape, transpose, slice) shares the storage of another value through strides and an offset;
//  - an op may overwrite a storage (an optimizer update): its output is the storage's new content, and the values that
//    showed the old content must not be read any more.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/base/category.h"
#include "plimsoll/program/attribute.h"
#include "plimsoll/program/type.h"

namespace plimsoll::program {

struct OpDef;

// A place in Program::values, or nothing.
struct Value {
  int32_t index = -1;

  explicit operator bool() const { return index >= 0; }
  bool operator==(const Value&) const = default;
};

enum class Phase : uint8_t { forward, backward, update };
std::string_view name(Phase phase);
std::optional<Phase> try_parse_phase(std::string_view text);

// How a view lies in its storage, in elements: element (i, j, ..) is at offset + i * strides[0] + j * strides[1] + ..
struct Layout {
  Dim offset;
  Dims strides;

  bool operator==(const Layout&) const = default;
};

struct ValueInfo {
  std::string name;  // unique in the program; see is_value_name
  Type type;
  Category category = Category::activation;
  Value storage;  // the value that owns the storage: this one, or the root of what it shares; never a chain
  std::optional<Layout> view;  // nothing: the whole storage in row-major order

  bool operator==(const ValueInfo&) const = default;
};

struct Op {
  const OpDef* def = nullptr;  // lives as long as the process
  Phase phase = Phase::forward;
  std::vector<Value> inputs;   // trailing optional operands may be missing
  std::vector<Value> outputs;  // one for each output of the definition; nothing where an optional one is not made
  std::vector<Attribute> attributes;  // one for each of the definition's schema, in its order
};

struct Program {
  std::vector<ValueInfo> values;
  std::vector<Op> ops;
  // Values that no op makes, by their part in a step. All keep their storage through the whole step; what ops write
  // into the storages of parameters and state is there in the next step.
  std::vector<Value> inputs;      // new in every step
  std::vector<Value> parameters;  // trained
  std::vector<Value> state;       // optimizer state, running statistics, counters
  std::vector<Value> outputs;     // what the caller reads after the step

  const ValueInfo& operator[](Value value) const { return values[static_cast<size_t>(value.index)]; }
  ValueInfo& operator[](Value value) { return values[static_cast<size_t>(value.index)]; }

  // The value of this name, or nothing. Looks at every value: for tests and messages.
  Value find(std::string_view name) const;
};

// Letters, digits and any of _ . / - ; not empty, at most 500.
bool is_value_name(std::string_view name);

// Strides and offset, also for a value that owns its storage.
Layout layout(const ValueInfo& value);

// For each value the place of the op that makes it, -1 for those that come in.
std::vector<int32_t> producers(const Program& program);

// All symbols in the shapes of the values.
std::set<std::string> symbols(const Program& program);

// The program for given sizes. ArgumentError for a symbol that the program does not have, a negative size, and a value
// whose dimensions come out negative (it is named). Symbols that `bindings` leaves out stay.
Program bind(const Program& program, const Bindings& bindings);

}  // namespace plimsoll::program
