#include "plimsoll/program/ops/dropout.h"

#include <fmt/format.h>

#include "plimsoll/program/autodiff.h"

namespace plimsoll::program {
namespace {

std::vector<Type> infer_dropout(const OpCall& call) {
  call.require_floating(0);
  const Type& seed = call.input(1);
  call.require(seed.dtype == DType::i64 && (seed.shape.empty() || (seed.shape == Dims{2} && call.shape(0).rank() > 0)),
               "seed must be i64[], or i64[2] for a micro-batch");
  const double rate = call.real("rate");
  if (!(rate >= 0 && rate <= 1)) call.reject(fmt::format("rate is {}, expected 0 to 1", rate));
  return {call.input(0)};
}

void differentiate_dropout(Gradient& g) {
  g.set(0, g.b.emit("dropout", std::vector{g.of_output(), g.input(1)}, g.attributes()));
}

}  // namespace

Value dropout(Builder& b, Value x, Value seed, const DropoutOptions& options) {
  const auto place = static_cast<int64_t>(b.program().ops.size());
  return b.emit("dropout", {x, seed},
                {{"rate", options.rate}, {"stream", options.stream.value_or(place)}, {"offset", options.offset}});
}

void register_dropout(OpTable& table) {
  table.add({.name = "dropout",
             .inputs = {"x", "seed"},
             .attributes = {{"rate", AttributeKind::real, {}},
                            {"stream", AttributeKind::integer, {}},
                            {"offset", AttributeKind::dim, Attribute(0)}},
             .infer = infer_dropout,
             .gradient = differentiate_dropout,
             .in_place = {0},
             .traits = {.draws = OpTraits::Draws{.seed = 1, .by_sample = true}}});
}

}  // namespace plimsoll::program
