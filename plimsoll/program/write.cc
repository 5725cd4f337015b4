#include <fmt/format.h>

#include <iterator>

#include "plimsoll/program/op.h"
#include "plimsoll/program/text.h"

namespace plimsoll::program {
namespace {

class Writer {
 public:
  explicit Writer(const Program& program) : program_(program) {}

  std::string write() {
    for (const Value value : program_.inputs) declare("input", value, Category::input);
    for (const Value value : program_.parameters) declare("parameter", value, Category::parameter);
    for (const Value value : program_.state) declare("state", value, Category::optimizer_state);
    for (const Op& op : program_.ops) write(op);
    for (const Value value : program_.outputs) append("output %{}\n", program_[value].name);
    return std::move(text_);
  }

 private:
  template <class... Args>
  void append(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  void declare(std::string_view what, Value value, Category usual) {
    append("{} ", what);
    define(value, usual);
    text_ += '\n';
  }

  void define(Value value, Category usual) {
    const ValueInfo& info = program_[value];
    append("%{}: {}", info.name, info.type.text());
    if (info.category != usual) append(" {}", name(info.category));
  }

  void write(const Op& op) {
    write_outputs(op);
    append(" = {}(", op.def->name);
    for (size_t i = 0; i < op.inputs.size(); ++i) append("{}%{}", i == 0 ? "" : ", ", program_[op.inputs[i]].name);
    text_ += ')';
    write_attributes(op);
    if (op.phase != Phase::forward) append(" @{}", name(op.phase));
    text_ += '\n';
  }

  void write_outputs(const Op& op) {
    size_t count = op.outputs.size();
    while (count > 1 && !op.outputs[count - 1]) --count;  // those left out at the end go without saying
    for (size_t k = 0; k < count; ++k) {
      if (k > 0) text_ += ", ";
      if (!op.outputs[k]) {
        text_ += '_';
        continue;
      }
      // What shares a storage has its category; the owner says it.
      const Value storage = program_[op.outputs[k]].storage;
      define(op.outputs[k], storage == op.outputs[k] ? Category::activation : program_[storage].category);
    }
  }

  void write_attributes(const Op& op) {
    std::string_view before = " {";
    for (size_t i = 0; i < op.attributes.size(); ++i) {
      const AttributeSpec& spec = op.def->attributes[i];
      if (spec.fallback == op.attributes[i]) continue;
      append("{}{}={}", before, spec.name, op.attributes[i].text());
      before = ", ";
    }
    if (before == ", ") text_ += '}';
  }

  const Program& program_;
  std::string text_;
};

}  // namespace

std::string write_program(const Program& program) { return Writer(program).write(); }

}  // namespace plimsoll::program
