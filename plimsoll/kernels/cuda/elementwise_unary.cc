// Ops of one operand, element by element, and their backward ops.
#include "plimsoll/kernels/cuda/support/elements.h"

namespace plimsoll::kernels {
namespace {

using cuda::Formula;

struct Named {
  const char* op;
  const char* value;
  const char* slope;  // of v, what the backward op reads; null: there is no such op
  const char* number = nullptr;
};

constexpr Named kOps[] = {
    {"sigmoid", "sigmoid(x0)", "v * (1 - v)"},
    {"tanh", "tanhf(x0)", "1 - v * v"},
    {"exp", "expf(x0)", "v"},
    {"sqrt", "sqrtf(x0)", "1 / (2 * v)"},
    {"rsqrt", "1 / sqrtf(x0)", "-v * v * v / 2"},
    {"reciprocal", "1 / x0", "-v * v"},
    {"elu", "x0 > 0 ? x0 : p0 * expm1f(x0)", "(v > 0 ? 1.0f : v + p0)", "alpha"},
    {"softplus", "softplus(x0, p0)", "-expm1f(-p0 * v)", "beta"},
    {"log", "logf(x0)", "1 / v"},
    {"silu", "x0 * sigmoid(x0)", "sigmoid(v) * (1 + v * (1 - sigmoid(v)))"},
    {"gelu", "x0 * normal_below(x0)", "normal_below(v) + v * normal_at(v)"},
    {"gelu_tanh", "0.5f * x0 * (1 + tanhf(gelu_inner(x0)))", "gelu_tanh_slope(v)"},
    {"hard_swish", "x0 * clamped(x0 / 6 + 0.5f, 0.0f, 1.0f)", "(v <= -3 ? 0.0f : v >= 3 ? 1.0f : v / 3 + 0.5f)"},
    {"sin", "sinf(x0)", "cosf(v)"},
    {"cos", "cosf(x0)", "-sinf(v)"},
    {"erf", "erff(x0)", "1.1283791670955126f * expf(-v * v)"},
    {"abs", "absolute(x0)", "sign(v)"},
    {"square", "x0 * x0", "2 * v"},
    {"pow_scalar", "power(x0, (Wide<T0>::type)p0)", "(p0 == 0 ? 0.0f : p0 * power(v, p0 - 1))", "exponent"},
    {"neg", "-x0", nullptr},
    {"sign", "sign(x0)", nullptr},
    {"floor", "floorf(x0)", nullptr},
    {"ceil", "ceilf(x0)", nullptr},
    {"round", "rintf(x0)", nullptr},
};

std::array<double, 4> number_of(const KernelCall& call, const Named& named) {
  return {named.number != nullptr ? call.op.real(named.number) : 0, 0, 0, 0};
}

KernelDef unary(const Named& named) {
  const auto prepare = [named](const KernelCall& call) {
    return cuda::element_kernel(call, {.value = named.value, .numbers = number_of(call, named)}, 1);
  };
  return {prepare, any_layout, cuda::together({0}, {0})};
}

// dy times the slope, in which v stands for the second operand.
KernelDef backward(const Named& named) {
  const auto prepare = [named](const KernelCall& call) {
    std::string slope;
    for (const char* c = named.slope; *c != 0; ++c) {
      const bool is_name = *c == 'v' && (c == named.slope || (std::isalnum(c[-1]) == 0 && c[-1] != '_')) &&
                           std::isalnum(c[1]) == 0 && c[1] != '_';
      slope += is_name ? std::string("x1") : std::string(1, *c);
    }
    return cuda::element_kernel(call, {.value = "x0 * (" + slope + ")", .numbers = number_of(call, named)}, 2);
  };
  return {prepare, any_layout, cuda::together({0, 1}, {0})};
}

using Make = Formula (*)(const KernelCall&);

KernelDef masked(Make make) {
  return {[make](const KernelCall& call) { return cuda::element_kernel(call, make(call), 1); }, any_layout,
          cuda::together({0}, {0, 1})};
}

Formula relu(const KernelCall&) { return {.value = "x0 > 0 || x0 != x0 ? x0 : 0", .taken = "x0 > 0"}; }
Formula leaky_relu(const KernelCall& call) {
  return {.value = "x0 > 0 ? x0 : x0 * p0", .taken = "x0 > 0", .numbers = {call.op.real("slope")}};
}
Formula clamp(const KernelCall& call) {
  return {.value = "clamped(x0, p0, p1)",
          .taken = "x0 > p0 && x0 < p1",
          .numbers = {call.op.real("low"), call.op.real("high")}};
}
Formula hard_sigmoid(const KernelCall& call) {
  return {.value = "clamped(p0 * x0 + p1, 0.0f, 1.0f)",
          .taken = "p0 * x0 + p1 > 0 && p0 * x0 + p1 < 1",
          .numbers = {call.op.real("scale"), call.op.real("shift")}};
}

Kernel mask_backward(const KernelCall& call) {
  return cuda::element_kernel(call,
                              {.value = "(bit ? p0 : p1) == 0 ? 0 : x0 * (bit ? p0 : p1)",
                               .numbers = {call.op.real("set"), call.op.real("clear")},
                               .reads_mask = true},
                              1);
}

Kernel affine(const KernelCall& call) {
  const double factor = call.op.real("scale") / static_cast<double>(call.op.integer("divisor"));
  return cuda::element_kernel(call, {.value = "x0 * p0 + p1", .numbers = {factor, call.op.real("shift")}}, 1);
}

Kernel cast(const KernelCall& call) {
  const bool to_bool = call.out().dtype == DType::boolean;
  return cuda::element_kernel(call, {.value = to_bool ? "x0 != 0" : "x0"}, 1);
}

}  // namespace

void register_elementwise_unary_cuda(KernelTable& table) {
  for (const Named& named : kOps) {
    table.add(named.op, unary(named));
    if (named.slope != nullptr) table.add(std::string(named.op) + "_backward", backward(named));
  }
  table.add("relu", masked(relu));
  table.add("leaky_relu", masked(leaky_relu));
  table.add("clamp", masked(clamp));
  table.add("hard_sigmoid", masked(hard_sigmoid));
  table.add("mask_backward", {mask_backward, any_layout, cuda::together({0, 1}, {0})});
  table.add("affine", {affine, any_layout, cuda::together({0}, {0})});
  table.add("cast", {cast, any_layout, cuda::together({0}, {0})});
}

}  // namespace plimsoll::kernels
