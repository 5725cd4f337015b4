#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_map>

#include "plimsoll/base/error.h"
#include "plimsoll/program/program.h"

namespace plimsoll::program {
namespace {

void check_bindings(const Program& program, const Bindings& bindings) {
  const std::set<std::string> known = symbols(program);
  for (const auto& [symbol, size] : bindings) {
    if (!known.contains(symbol)) {
      throw ArgumentError(fmt::format("the program has no dimension {}; it has {}", quote(symbol),
                                      known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
    }
    if (size < 0) throw ArgumentError(fmt::format("dimension {} is bound to {}, which is negative", symbol, size));
  }
}

// Programs repeat the same few expressions; each is bound once.
class Binder {
 public:
  explicit Binder(const Bindings& bindings) : bindings_(bindings) {}

  Dim operator()(Dim dim) {
    if (dim.is_constant()) return dim;
    const auto [found, fresh] = bound_.try_emplace(dim);
    if (fresh) found->second = dim.bind(bindings_);
    return found->second;
  }

  void bind(Dims& dims) {
    for (int axis = 0; axis < dims.rank(); ++axis) dims[axis] = (*this)(dims[axis]);
  }

  void bind(ValueInfo& value) {
    bind(value.type.shape);
    if (value.type.shape.is_negative()) {
      throw ArgumentError(fmt::format("%{} would be {}: a dimension is negative for {}", value.name, value.type.text(),
                                      fmt::join(bindings_, ", ")));
    }
    if (!value.view) return;
    bind(value.view->strides);
    value.view->offset = (*this)(value.view->offset);
  }

 private:
  const Bindings& bindings_;
  std::unordered_map<Dim, Dim> bound_;
};

}  // namespace

Program bind(const Program& program, const Bindings& bindings) {
  check_bindings(program, bindings);
  Program bound = program;
  Binder binder(bindings);
  for (ValueInfo& value : bound.values) binder.bind(value);
  for (Op& op : bound.ops) {
    for (Attribute& attribute : op.attributes) attribute = attribute.bind(bindings);
  }
  return bound;
}

}  // namespace plimsoll::program
