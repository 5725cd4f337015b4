#include "plimsoll/run/eager/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "plimsoll/base/error.h"

namespace plimsoll::eager {
namespace {

using program::Attribute;
using program::OpDef;

std::vector<Data> data_of(std::span<const Tensor> tensors) {
  std::vector<Data> data;
  data.reserve(tensors.size());
  for (const Tensor& tensor : tensors) data.push_back(tensor.state()->data);
  return data;
}

void require_tensors(const OpDef& def, std::span<const Tensor> operands, const Context& context) {
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i]) throw ArgumentError(fmt::format("{}: operand {} is no tensor", def.name, i));
    if (&operands[i].context() != &context) {
      throw ArgumentError(fmt::format("{}: operand {} is of another context", def.name, i));
    }
  }
}

// In the memory of a tensor whose gradient is asked for nothing may be replaced while ops are recorded: the tape would
// not know.
void require_unrecorded(const OpDef& def, std::span<const Tensor> operands) {
  for (const program::Overwrite& overwrite : def.overwrites) {
    const auto i = static_cast<size_t>(overwrite.input);
    if (i >= operands.size() || !operands[i].requires_grad()) continue;
    throw ArgumentError(fmt::format("{}: overwrites {}, which requires a gradient; do it in a NoGrad scope", def.name,
                                    def.input_name(overwrite.input)));
  }
}

bool is_asked(const OpDef& def, const std::vector<bool>& asked, size_t k) {
  return !def.is_optional_output(k) || (k < asked.size() && asked[k]);
}

// Made are the results that are asked for and those that the gradient reads.
std::vector<Place> places_of(const OpDef& def, const std::vector<bool>& asked, const Recipe* recipe) {
  std::vector<Place> places(recipe == nullptr ? asked.size() : recipe->results().size());
  for (size_t k = 0; k < places.size(); ++k) {
    const bool is_read = recipe != nullptr && recipe->results()[k];
    if (!is_read && !is_asked(def, asked, k)) places[k].kind = Place::Kind::absent;
  }
  return places;
}

Recorded recorded(const OpDef& def, const std::vector<Attribute>& attributes, std::span<const Tensor> operands) {
  Recorded op{&def, attributes, {}, {}};
  for (const Tensor& operand : operands) {
    op.types.push_back(operand.state()->data.type());
    op.wants.push_back(operand.requires_grad() && is_floating(operand.dtype()));
  }
  return op;
}

std::vector<Edge> edges_to(std::span<const Tensor> operands) {
  std::vector<Edge> edges;
  for (const Tensor& operand : operands) {
    const std::shared_ptr<TensorState>& state = operand.state();
    const bool is_leaf = state->requires_grad && !state->record;
    edges.push_back({state->record, state->output, is_leaf ? state : nullptr});
  }
  return edges;
}

}  // namespace

Context::Context(Pool& pool, EngineOptions options) : engine_(pool, std::move(options)) {
  const auto evict = [evictor = std::weak_ptr(evictor_)](int64_t bytes) {
    const auto found = evictor.lock();
    return found ? found->evict(bytes) : 0;
  };
  pool.add_reclaim("recompute", evict);
  pool.add_reclaim("recompute all", [evict](int64_t) { return evict(INT64_MAX); });  // pages may want more than bytes
}

Tensor Context::empty(const TensorSpec& spec, std::string_view name, Category category) {
  Data data = engine_.allocate(spec, category, name);
  return {*this, std::make_shared<TensorState>(TensorState{.data = std::move(data)})};
}

Tensor Context::zeros(const TensorSpec& spec, std::string_view name, Category category) {
  Tensor tensor = empty(spec, name, category);
  std::fill_n(tensor.state()->data.at(), spec.bytes(), std::byte{});
  return tensor;
}

Tensor Context::full(const TensorSpec& spec, double value) {
  const OpDef& fill = program::op_table().get("fill");
  return apply(fill, {Attribute(value), Attribute(program::Dims(spec.shape)), Attribute(spec.dtype)}, {})[0];
}

Tensor Context::parameter(std::string_view name, const TensorSpec& spec) {
  return zeros(spec, name, Category::parameter).require_grad();
}

Tensor Context::copied(const TensorSpec& spec, size_t given, const std::byte* from) {
  if (static_cast<int64_t>(given) != spec.shape.elements()) {
    throw ArgumentError(fmt::format("{} values are given for {}", given, spec.text()));
  }
  Tensor tensor = empty(spec);
  if (given > 0) std::memcpy(tensor.state()->data.at(), from, static_cast<size_t>(spec.bytes()));
  return tensor;
}

std::vector<Tensor> Context::apply(const OpDef& def, const std::vector<Attribute>& attributes,
                                   std::span<const Tensor> operands, const std::vector<bool>& asked) {
  require_tensors(def, operands, *this);
  prepare_to_overwrite(def, operands);
  const std::vector<Data> inputs = data_of(operands);
  std::shared_ptr<Record> record;
  std::shared_ptr<const Recipe> recipe;
  if (is_recorded(def, operands)) {
    program::check_arity(def, operands.size());
    record = std::make_shared<Record>(recorded(def, attributes, operands), edges_to(operands), inputs);
    if (def.gradient) recipe = recipes_.find(record->op());  // without one, only asking for the gradient is an error
  }
  std::vector<Place> places = places_of(def, asked, recipe.get());
  std::vector<Data> data = engine_.run({def, attributes, inputs, places});
  if (record) record->number = ++records_produced_;
  if (recipe) {
    record->keep(*recipe, inputs, data, std::move(places), engine_.last_seconds());
    record->register_at(evictor_);
  }
  std::vector<Tensor> results;
  for (size_t k = 0; k < data.size(); ++k) {
    const bool is_wanted = data[k] && is_asked(def, asked, k);
    results.push_back(is_wanted ? result_of(def, std::move(data[k]), record, k) : Tensor());
  }
  return results;
}

// Optional results carry no gradient.
Tensor Context::result_of(const OpDef& def, Data data, const std::shared_ptr<Record>& record, size_t k) {
  const auto state = std::make_shared<TensorState>(TensorState{.data = std::move(data)});
  if (record && is_floating(state->data.desc.dtype) && !def.is_optional_output(k)) {
    state->requires_grad = true;
    state->record = record;
    state->output = k;
  }
  return {*this, state};
}

void Context::prepare_to_overwrite(const OpDef& def, std::span<const Tensor> operands) {
  if (records()) require_unrecorded(def, operands);
  for (const program::Overwrite& overwrite : def.overwrites) {
    const auto i = static_cast<size_t>(overwrite.input);
    const bool feeds = i < operands.size() && operands[i].state()->data.storage->is_needed_again();
    if (feeds) evictor_->restore_all(engine_);
  }
}

bool Context::is_recorded(const OpDef& def, std::span<const Tensor> operands) const {
  if (!records() || !def.overwrites.empty()) return false;
  return std::any_of(operands.begin(), operands.end(), [](const Tensor& operand) { return operand.requires_grad(); });
}

void Context::backward(const Tensor& root, const Tensor& seed, const BackwardOptions& options) {
  if (!root.requires_grad()) {
    throw ArgumentError(
        fmt::format("backward of {}: it depends on nothing that requires a gradient, or was made in a "
                    "NoGrad scope",
                    root.spec().text()));
  }
  if (seed.spec() != root.spec()) {
    throw ArgumentError(fmt::format("the seed is {}, expected {}", seed.spec().text(), root.spec().text()));
  }
  eager::backward(engine_, recipes_, root.state(), seed.state()->data, options);
}

}  // namespace plimsoll::eager
