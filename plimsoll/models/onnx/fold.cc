// Nodes whose operands are known while the graph is imported: constants and the arithmetic of shapes.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "plimsoll/models/onnx/node.h"
#include "plimsoll/models/onnx/ranges.h"

namespace plimsoll::models::onnx_import {
namespace {

using Operands = std::vector<const HostTensor*>;
using Folded = std::optional<HostTensor>;
using FoldRule = Folded (*)(const NodeCall&, const Operands&);

std::optional<Dim> quotient(Dim a, Dim b) {
  if (!b.is_constant()) return a == b ? std::optional(Dim(1)) : std::nullopt;
  if (b.constant() == 0) return std::nullopt;
  if (a.is_constant()) return a.constant() / b.constant();  // towards zero
  return b.constant() > 0 ? std::optional(floor_div(a, b)) : std::nullopt;
}

Folded arithmetic(const Operands& x, const IntFunction& ints, const RealFunction& reals) {
  return x[0]->is_real() ? map_reals(*x[0], *x[1], reals) : map_ints(*x[0], *x[1], ElementKind::integer, ints);
}

Folded fold_add(const NodeCall&, const Operands& x) {
  return arithmetic(
      x, [](Dim a, Dim b) { return a + b; }, [](double a, double b) { return a + b; });
}
Folded fold_sub(const NodeCall&, const Operands& x) {
  return arithmetic(
      x, [](Dim a, Dim b) { return a - b; }, [](double a, double b) { return a - b; });
}
Folded fold_mul(const NodeCall&, const Operands& x) {
  return arithmetic(
      x, [](Dim a, Dim b) { return a * b; }, [](double a, double b) { return a * b; });
}
Folded fold_div(const NodeCall&, const Operands& x) {
  return arithmetic(x, quotient, [](double a, double b) { return a / b; });
}
Folded fold_pow(const NodeCall&, const Operands& x) {
  if (!x[0]->is_real() || !x[1]->is_real()) return std::nullopt;
  return map_reals(*x[0], *x[1], [](double a, double b) { return std::pow(a, b); });
}

Folded fold_mod(const NodeCall& call, const Operands& x) {
  if (x[0]->is_real() || call.flag("fmod")) return std::nullopt;
  return map_ints(*x[0], *x[1], ElementKind::integer, [](Dim a, Dim b) -> std::optional<Dim> {
    if (!a.is_constant() || !b.is_constant() || b.constant() == 0) return std::nullopt;
    const int64_t rest = a.constant() % b.constant();
    return rest != 0 && (rest < 0) != (b.constant() < 0) ? rest + b.constant() : rest;
  });
}

Folded fold_extreme(const Operands& x, int sign) {
  HostTensor best = *x[0];
  for (size_t i = 1; i < x.size(); ++i) {
    const auto next = best.is_real()
                          ? map_reals(best, *x[i], [&](double a, double b) { return sign * (a - b) > 0 ? a : b; })
                          : map_ints(best, *x[i], ElementKind::integer, [&](Dim a, Dim b) -> std::optional<Dim> {
                              const auto order = compare(a, b);
                              if (!order) return std::nullopt;
                              return *order * sign > 0 ? a : b;
                            });
    if (!next) return std::nullopt;
    best = *next;
  }
  return best;
}
Folded fold_max(const NodeCall&, const Operands& x) { return fold_extreme(x, 1); }
Folded fold_min(const NodeCall&, const Operands& x) { return fold_extreme(x, -1); }

// -1, 0, 1: which orders of the operands hold.
template <bool Less, bool Equal, bool More>
Folded fold_order(const NodeCall&, const Operands& x) {
  static constexpr bool kHolds[] = {Less, Equal, More};
  const auto holds = [](int order) { return kHolds[order < 0 ? 0 : 1 + static_cast<int>(order > 0)]; };
  if (x[0]->is_real()) {
    return map_tests(*x[0], *x[1], [&](double a, double b) -> double {
      if (std::isnan(a) || std::isnan(b)) return 0;
      return holds(a < b ? -1 : (a == b ? 0 : 1)) ? 1 : 0;
    });
  }
  return map_ints(*x[0], *x[1], ElementKind::boolean, [&](Dim a, Dim b) -> std::optional<Dim> {
    const auto order = compare(a, b);
    if (!order) return std::nullopt;
    return Dim(holds(*order) ? 1 : 0);
  });
}

template <class F>
Folded logical(const Operands& x, const F& f) {
  return map_ints(*x[0], *x[1], ElementKind::boolean, [&](Dim a, Dim b) -> std::optional<Dim> {
    if (!a.is_constant() || !b.is_constant()) return std::nullopt;
    return Dim(f(a.constant() != 0, b.constant() != 0) ? 1 : 0);
  });
}
Folded fold_and(const NodeCall&, const Operands& x) {
  return logical(x, [](bool a, bool b) { return a && b; });
}
Folded fold_or(const NodeCall&, const Operands& x) {
  return logical(x, [](bool a, bool b) { return a || b; });
}
Folded fold_xor(const NodeCall&, const Operands& x) {
  return logical(x, [](bool a, bool b) { return a != b; });
}
Folded fold_not(const NodeCall&, const Operands& x) {
  return logical({x[0], x[0]}, [](bool a, bool) { return !a; });
}

Folded on_reals(const Operands& x, double (*f)(double)) {
  if (!x[0]->is_real()) return std::nullopt;
  return map_reals(*x[0], *x[0], [f](double a, double) { return f(a); });
}
Folded fold_sqrt(const NodeCall&, const Operands& x) {
  return on_reals(x, [](double a) { return std::sqrt(a); });
}
Folded fold_floor(const NodeCall&, const Operands& x) {
  return on_reals(x, [](double a) { return std::floor(a); });
}
Folded fold_ceil(const NodeCall&, const Operands& x) {
  return on_reals(x, [](double a) { return std::ceil(a); });
}
Folded fold_reciprocal(const NodeCall&, const Operands& x) {
  return on_reals(x, [](double a) { return 1 / a; });
}
Folded fold_exp(const NodeCall&, const Operands& x) {
  return on_reals(x, [](double a) { return std::exp(a); });
}
Folded fold_log(const NodeCall&, const Operands& x) {
  return on_reals(x, [](double a) { return std::log(a); });
}
Folded fold_sin(const NodeCall&, const Operands& x) {
  return on_reals(x, [](double a) { return std::sin(a); });
}
Folded fold_cos(const NodeCall&, const Operands& x) {
  return on_reals(x, [](double a) { return std::cos(a); });
}
Folded fold_relu(const NodeCall&, const Operands& x) {
  return on_reals(x, [](double a) { return a < 0 ? 0 : a; });
}
Folded fold_neg(const NodeCall&, const Operands& x) {
  if (x[0]->is_real()) return on_reals(x, [](double a) { return -a; });
  return map_ints(*x[0], *x[0], ElementKind::integer, [](Dim a, Dim) { return Dim(0) - a; });
}

Folded fold_abs(const NodeCall&, const Operands& x) {
  if (x[0]->is_real()) return on_reals(x, [](double a) { return std::abs(a); });
  return map_ints(*x[0], *x[0], ElementKind::integer, [](Dim a, Dim) -> std::optional<Dim> {
    const auto order = compare(a, 0);
    if (!order) return std::nullopt;
    return *order < 0 ? Dim(0) - a : a;
  });
}

Folded fold_identity(const NodeCall&, const Operands& x) { return *x[0]; }

Folded fold_cast(const NodeCall& call, const Operands& x) {
  const int to = static_cast<int>(call.integer("to", TensorProto::FLOAT));
  if (to == TensorProto::FLOAT16 || to == TensorProto::BFLOAT16 || element_bits(to) < 32) {
    if (to != TensorProto::BOOL) return std::nullopt;  // rounds or wraps: left to the run
  }
  return host_cast(*x[0], element_kind(call.in.file(), to, "a cast"));
}

Folded fold_where(const NodeCall&, const Operands& x) { return host_where(*x[0], *x[1], *x[2]); }

Folded fold_reshape(const NodeCall& call, const Operands& x) { return host_reshape(*x[0], reshaped(call, x[0]->dims)); }
Folded fold_squeeze(const NodeCall& call, const Operands& x) { return host_reshape(*x[0], squeezed(call, x[0]->dims)); }
Folded fold_unsqueeze(const NodeCall& call, const Operands& x) {
  return host_reshape(*x[0], unsqueezed(call, x[0]->dims));
}

Folded fold_transpose(const NodeCall& call, const Operands& x) {
  return host_transpose(*x[0], permutation(call, x[0]->dims.rank()));
}

Folded fold_expand(const NodeCall& call, const Operands& x) {
  const std::vector<Dim> to = call.dims_of(1, "the shape");
  return host_expand(*x[0], Dims(to));
}

Folded fold_concat(const NodeCall& call, const Operands& x) {
  return host_concat(x, call.axis(call.integer("axis", 0), x[0]->dims.rank()));
}

Folded fold_gather(const NodeCall& call, const Operands& x) {
  const int axis = call.axis(call.integer("axis", 0), x[0]->dims.rank());
  return host_gather(*x[0], *x[1], axis);
}

Folded fold_slice(const NodeCall& call, const Operands& x) {
  HostTensor y = *x[0];
  for (const SliceRange& range : slice_ranges(call, y.dims.rank())) {
    if (!y.dims[range.axis].is_constant()) return std::nullopt;
    const auto places = places_of(range, y.dims[range.axis].constant());
    if (!places) return std::nullopt;
    const auto picked = host_pick(y, range.axis, *places);
    if (!picked) return std::nullopt;
    y = *picked;
  }
  return y;
}

Folded fold_range(const NodeCall&, const Operands& x) {
  if (x[0]->is_real()) return std::nullopt;
  for (const HostTensor* one : x) {
    if (one->count() != 1 || !one->ints[0].is_constant()) return std::nullopt;
  }
  const int64_t start = x[0]->ints[0].constant();
  const int64_t limit = x[1]->ints[0].constant();
  const int64_t step = x[2]->ints[0].constant();
  if (step == 0) return std::nullopt;
  std::vector<Dim> values;
  for (int64_t i = start; step > 0 ? i < limit : i > limit;) {
    if (static_cast<int64_t>(values.size()) > kMostHostElements / 4) return std::nullopt;
    values.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;  // beyond every limit
  }
  return host_ints(values);
}

Folded fold_cumsum(const NodeCall& call, const Operands& x) {
  const int axis = call.axis(call.int_of(1, "the axis"), x[0]->dims.rank());
  if (x[0]->is_real() || call.flag("exclusive") || call.flag("reverse") || !x[0]->dims[axis].is_constant()) {
    return std::nullopt;
  }
  if (x[0]->is_uniform() && x[0]->count() > 0 && x[0]->ints[0] == Dim(0)) return *x[0];
  if (x[0]->stored.dims()[static_cast<size_t>(axis)] == 1) return std::nullopt;
  HostTensor y = *x[0];
  int64_t inner = 1;
  for (int i = axis + 1; i < y.stored.rank(); ++i) inner *= y.stored[i];
  for (size_t i = 0; i < y.ints.size(); ++i) {
    const int64_t along = static_cast<int64_t>(i) / inner % y.stored[axis];
    if (along > 0) y.ints[i] = y.ints[i] + y.ints[i - static_cast<size_t>(inner)];
  }
  return y;
}

// Of a shape mostly: the product, sum or extreme of all numbers, or of a vector.
template <class F>
Folded reduce_vector(const NodeCall& call, const Operands& x, const F& f) {
  if (x[0]->is_real() || x[0]->dims.rank() != 1 || x[0]->ints.empty()) return std::nullopt;
  Dim result = x[0]->ints[0];
  for (size_t i = 1; i < x[0]->ints.size(); ++i) result = f(result, x[0]->ints[i]);
  HostTensor y = host_ints(std::vector<Dim>{result});
  if (call.flag("keepdims", true)) return y;
  return host_reshape(y, {});
}
Folded fold_reduce_prod(const NodeCall& call, const Operands& x) {
  return reduce_vector(call, x, [](Dim a, Dim b) { return a * b; });
}
Folded fold_reduce_sum(const NodeCall& call, const Operands& x) {
  return reduce_vector(call, x, [](Dim a, Dim b) { return a + b; });
}

// Of a vector.
template <int Sign>
Folded fold_reduce_extreme(const NodeCall& call, const Operands& x) {
  const HostTensor& all = *x[0];
  if (all.dims.rank() != 1 || all.count() == 0) return std::nullopt;
  HostTensor y = all;
  y.dims = {1};
  y.stored = Shape{1};
  if (all.is_real()) {
    const auto [least, most] = std::minmax_element(all.reals.begin(), all.reals.end());
    y.reals = {Sign > 0 ? *most : *least};
  } else {
    y.ints = {all.ints[0]};
    for (const Dim one : all.ints) {
      const auto order = compare(one, y.ints[0]);
      if (!order) return std::nullopt;
      if (*order * Sign > 0) y.ints[0] = one;
    }
  }
  if (call.flag("keepdims", true)) return y;
  return host_reshape(y, {});
}

Folded fold_non_zero(const NodeCall&, const Operands& x) {
  if (!x[0]->dims.is_constant() || x[0]->is_real()) return std::nullopt;
  if (x[0]->dims.shape().elements() > kMostHostElements) return std::nullopt;
  const HostTensor all = x[0]->unfolded();
  const int rank = all.dims.rank();
  std::vector<std::vector<Dim>> found(static_cast<size_t>(rank));
  for (size_t i = 0; i < all.ints.size(); ++i) {
    if (!all.ints[i].is_constant()) return std::nullopt;
    if (all.ints[i].constant() == 0) continue;
    auto rest = static_cast<int64_t>(i);
    for (int axis = rank - 1; axis >= 0; --axis) {
      found[static_cast<size_t>(axis)].emplace_back(rest % all.stored[axis]);
      rest /= all.stored[axis];
    }
  }
  const int64_t count = rank == 0 ? 0 : static_cast<int64_t>(found[0].size());
  HostTensor y{ElementKind::integer, {rank, count}, Shape{rank, count}};
  for (const auto& line : found) y.ints.insert(y.ints.end(), line.begin(), line.end());
  return y;
}

Folded fold_trilu(const NodeCall& call, const Operands& x) {
  const int rank = x[0]->dims.rank();
  if (rank < 2 || !x[0]->dims[rank - 1].is_constant() || !x[0]->dims[rank - 2].is_constant()) return std::nullopt;
  const int64_t k = call.has(1) ? call.int_of(1, "k") : 0;
  const bool upper = call.flag("upper", true);
  const int64_t rows = x[0]->dims[rank - 2].constant();
  const int64_t columns = x[0]->dims[rank - 1].constant();
  if (rows > kMostHostElements / std::max<int64_t>(columns, 1)) return std::nullopt;
  HostTensor keep{ElementKind::boolean, {rows, columns}, Shape{rows, columns}};
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) keep.ints.emplace_back((upper ? j - i >= k : j - i <= k) ? 1 : 0);
  }
  return host_where(keep, *x[0], host_scalar(x[0]->kind, 0));
}

Folded fold_tile(const NodeCall& call, const Operands& x) {
  HostTensor y = *x[0];
  const std::vector<Dim> repeats = call.dims_of(1, "the repeats");
  if (repeats.size() != static_cast<size_t>(y.dims.rank())) return std::nullopt;
  for (int axis = 0; axis < y.dims.rank(); ++axis) {
    const Dim times = repeats[static_cast<size_t>(axis)];
    if (y.stored[axis] == 1) {
      y.dims[axis] = y.dims[axis] * times;
      continue;
    }
    if (!times.is_constant() || times.constant() < 1 || times.constant() > kMostHostElements) return std::nullopt;
    const std::vector<const HostTensor*> copies(static_cast<size_t>(times.constant()), &y);
    const auto tiled = host_concat(copies, axis);
    if (!tiled) return std::nullopt;
    y = *tiled;
  }
  return y;
}

const std::unordered_map<std::string_view, FoldRule>& fold_rules() {
  static const std::unordered_map<std::string_view, FoldRule> rules = {
      {"Add", fold_add},
      {"Sub", fold_sub},
      {"Mul", fold_mul},
      {"Div", fold_div},
      {"Pow", fold_pow},
      {"Mod", fold_mod},
      {"Max", fold_max},
      {"Min", fold_min},
      {"Less", fold_order<true, false, false>},
      {"LessOrEqual", fold_order<true, true, false>},
      {"Equal", fold_order<false, true, false>},
      {"GreaterOrEqual", fold_order<false, true, true>},
      {"Greater", fold_order<false, false, true>},
      {"And", fold_and},
      {"Or", fold_or},
      {"Xor", fold_xor},
      {"Not", fold_not},
      {"Sqrt", fold_sqrt},
      {"Floor", fold_floor},
      {"Ceil", fold_ceil},
      {"Reciprocal", fold_reciprocal},
      {"Exp", fold_exp},
      {"Log", fold_log},
      {"Sin", fold_sin},
      {"Cos", fold_cos},
      {"Relu", fold_relu},
      {"Neg", fold_neg},
      {"Abs", fold_abs},
      {"Identity", fold_identity},
      {"Cast", fold_cast},
      {"Where", fold_where},
      {"Reshape", fold_reshape},
      {"Squeeze", fold_squeeze},
      {"Unsqueeze", fold_unsqueeze},
      {"Transpose", fold_transpose},
      {"Expand", fold_expand},
      {"Concat", fold_concat},
      {"Gather", fold_gather},
      {"Slice", fold_slice},
      {"Range", fold_range},
      {"CumSum", fold_cumsum},
      {"ReduceProd", fold_reduce_prod},
      {"ReduceSum", fold_reduce_sum},
      {"ReduceMax", fold_reduce_extreme<1>},
      {"ReduceMin", fold_reduce_extreme<-1>},
      {"NonZero", fold_non_zero},
      {"Trilu", fold_trilu},
      {"Tile", fold_tile},
  };
  return rules;
}

size_t least_operands(std::string_view op) {
  constexpr std::array<std::string_view, 14> kTwo = {
      "Add",    "Sub", "Mul", "Div", "Pow", "Mod", "Less", "Greater", "Expand", "Equal", "GreaterOrEqual",
      "CumSum", "And", "Or"};
  if (op == "Where" || op == "Range") return 3;
  const bool two = std::find(kTwo.begin(), kTwo.end(), op) != kTwo.end() || op == "Xor" || op == "LessOrEqual" ||
                   op == "Gather" || op == "Tile";
  return two ? 2 : 1;
}

int folded_type(const NodeCall& call) {
  if (call.node.op_type() == "Cast") return static_cast<int>(call.integer("to", 0));
  return call.has(0) && call.node.op_type() != "Where" ? call.element_type(0) : 0;
}

}  // namespace

bool fold_node(NodeCall& call, const std::vector<const HostTensor*>& operands) {
  if (!call.node.domain().empty() && call.node.domain() != "ai.onnx") return false;
  const auto rule = fold_rules().find(call.node.op_type());
  if (rule == fold_rules().end() || operands.empty() || operands[0] == nullptr) return false;
  if (operands.size() < least_operands(call.node.op_type())) return false;
  // Slice may go without axes and have steps.
  const bool is_whole = std::find(operands.begin(), operands.end(), nullptr) == operands.end();
  if (!is_whole && call.node.op_type() != "Slice") return false;
  auto folded = rule->second(call, operands);
  if (!folded) return false;
  const ElementKind kind = folded->kind;
  call.set(0, std::move(*folded), kind == ElementKind::boolean ? int{TensorProto::BOOL} : folded_type(call));
  return true;
}

}  // namespace plimsoll::models::onnx_import
