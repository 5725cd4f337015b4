#include "plimsoll/program/autodiff.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/program/ops/constant.h"
#include "plimsoll/program/ops/elementwise_binary.h"

namespace plimsoll::program {
namespace {

void require_floating(const Builder& b, Value value, std::string_view what) {
  if (is_floating(b.type(value).dtype)) return;
  throw ArgumentError(fmt::format("{} %{} is {}: only floating values have gradients", what, b.program()[value].name,
                                  b.type(value).text()));
}

// Which values depend on the wanted ones through floating values.
std::vector<bool> dependents(const Program& program, std::span<const Value> wanted) {
  std::vector<bool> depends(program.values.size(), false);
  const auto at = [&](Value value) { return depends[static_cast<size_t>(value.index)]; };
  for (const Value value : wanted) at(value) = true;
  for (const Op& op : program.ops) {
    if (std::none_of(op.inputs.begin(), op.inputs.end(), at)) continue;
    for (const Value output : op.outputs) {
      if (output && is_floating(program[output].type.dtype)) at(output) = true;
    }
  }
  return depends;
}

}  // namespace

void zero_gradient(Gradient& /*gradient*/) {}

Gradient::Gradient(Builder& builder, size_t op, std::span<const Value> output_gradients,
                   const std::vector<bool>& wanted)
    : b(builder),
      op_(op),
      inputs_(builder.program().ops[op].inputs),
      output_gradients_(output_gradients),
      wanted_(wanted),
      results_(inputs_.size()) {}

Value Gradient::output(int k) const { return b.program().ops[op_].outputs[static_cast<size_t>(k)]; }
Value Gradient::saved(int k) { return b.optional_output(op_, static_cast<size_t>(k)); }

void Gradient::set(int i, Value gradient) {
  if (!wants(i)) return;
  if (b.type(gradient) != b.type(input(i))) {
    throw ArgumentError(fmt::format("gradient rule of {}: the gradient of {} is {}, expected {}",
                                    b.program().ops[op_].def->name, b.program().ops[op_].def->input_name(i),
                                    b.type(gradient).text(), b.type(input(i)).text()));
  }
  results_[static_cast<size_t>(i)] = gradient;
}

const Attribute& Gradient::attribute(std::string_view name) const {
  const Op& op = b.program().ops[op_];
  return OpCall{*op.def, {}, op.attributes}.attribute(name);
}

std::vector<NamedAttribute> Gradient::attributes() const {
  const Op& op = b.program().ops[op_];
  std::vector<NamedAttribute> named;
  for (size_t i = 0; i < op.attributes.size(); ++i) named.emplace_back(op.def->attributes[i].name, op.attributes[i]);
  return named;
}

int Gradient::axis(std::string_view name) const {
  const auto given = static_cast<int>(attribute(name).dim().constant());
  return given < 0 ? given + b.shape(input(0)).rank() : given;
}

// One differentiation: the gradients known so far, walked from the last op to the first.
class Backward {
 public:
  Backward(Builder& b, std::span<const Value> wanted)
      : b_(b), depends_(dependents(b.program(), wanted)), gradients_(b.program().values.size()) {}

  void seed(const Root& root) {
    require_floating(b_, root.value, "the root");
    if (root.seed && b_.type(root.seed) != b_.type(root.value)) {
      throw ArgumentError(fmt::format("the seed of %{} is {}, expected {}", b_.program()[root.value].name,
                                      b_.type(root.seed).text(), b_.type(root.value).text()));
    }
    if (!depends_[static_cast<size_t>(root.value.index)]) return;
    accumulate(root.value, root.seed ? root.seed : ones(root.value));
  }

  void run(size_t ops) {
    for (size_t op = ops; op-- > 0;) differentiate(op);
  }

  Value operator[](Value value) const { return gradients_[static_cast<size_t>(value.index)]; }

  // What was made here alone to be a gradient of a parameter, or of its copy in f16 or bf16, or to be added to one.
  const std::vector<Value>& of_parameters() const { return of_parameters_; }

 private:
  Value ones(Value like) {
    const Value seed = fill(b_, 1.0, b_.type(like));
    b_.rename(seed, fmt::format("grad.{}", b_.program()[like].name));
    return seed;
  }

  void differentiate(size_t op_index) {
    const std::vector<Value> arriving = arriving_at(b_.program().ops[op_index]);
    if (arriving.empty()) return;
    const OpDef& def = *b_.program().ops[op_index].def;
    if (!def.gradient) {
      throw ArgumentError(fmt::format("op {} that makes %{} has no gradient", def.name,
                                      b_.program()[b_.program().ops[op_index].outputs[0]].name));
    }
    const size_t first_new = b_.program().values.size();
    Gradient gradient(b_, op_index, arriving, depends_);
    def.gradient(gradient);
    for (int i = 0; i < gradient.arity(); ++i) {
      const Value result = gradient.results_[static_cast<size_t>(i)];
      if (!result) continue;
      if (static_cast<size_t>(result.index) >= first_new) made_for(gradient.input(i), result);
      accumulate(gradient.input(i), result);
    }
  }

  // The gradients of the outputs; empty when none arrives or no input wants one.
  std::vector<Value> arriving_at(const Op& op) const {
    const auto depends = [&](Value value) { return depends_[static_cast<size_t>(value.index)]; };
    if (std::none_of(op.inputs.begin(), op.inputs.end(), depends)) return {};
    std::vector<Value> arriving;
    for (const Value output : op.outputs) arriving.push_back(output ? (*this)[output] : Value{});
    const bool any = std::any_of(arriving.begin(), arriving.end(), [](Value value) { return bool(value); });
    return any ? arriving : std::vector<Value>{};
  }

  void accumulate(Value of, Value gradient) {
    Value& sum = gradients_[static_cast<size_t>(of.index)];
    if (sum) {
      gradient = add(b_, sum, gradient);
      made_for(of, gradient);
    }
    sum = gradient;
  }

  void made_for(Value of, Value gradient) {
    const Program& program = b_.program();
    b_.rename(gradient, fmt::format("grad.{}", program[of].name));
    const bool is_own = program[gradient].storage == gradient;
    if (is_own && program[of].category == Category::parameter) of_parameters_.push_back(gradient);
  }

  Builder& b_;
  std::vector<Value> of_parameters_;
  std::vector<bool> depends_;
  std::vector<Value> gradients_;  // of the values that were there before
};

namespace {

// Gradients of parameters are memory of their own kind; those of anything else are activations.
void categorise(Builder& b, std::span<const Value> wanted, std::span<const Value> found,
                std::vector<Value> of_parameters) {
  for (size_t i = 0; i < found.size(); ++i) {
    const Program& program = b.program();
    if (!found[i] || program[wanted[i]].category != Category::parameter) continue;
    if (program[found[i]].category == Category::activation) of_parameters.push_back(found[i]);
  }
  b.set_category(of_parameters, Category::gradient);
}

}  // namespace

std::vector<Value> gradients(Builder& b, std::span<const Root> roots, std::span<const Value> wanted) {
  for (const Value value : wanted) require_floating(b, value, "a gradient is asked of");
  const size_t ops = b.program().ops.size();
  const Phase phase = b.phase();
  b.set_phase(Phase::backward);
  Backward backward(b, wanted);
  for (const Root& root : roots) backward.seed(root);
  backward.run(ops);
  b.set_phase(phase);
  std::vector<Value> found;
  for (const Value value : wanted) found.push_back(backward[value]);
  categorise(b, wanted, found, backward.of_parameters());
  return found;
}

std::vector<Value> gradients(Builder& b, Value loss, std::span<const Value> wanted) {
  if (b.shape(loss).elements() != 1) {
    throw ArgumentError(
        fmt::format("the loss %{} is {}: expected one element", b.program()[loss].name, b.type(loss).text()));
  }
  const Root root{loss};
  return gradients(b, std::span(&root, 1), wanted);
}

}  // namespace plimsoll::program
