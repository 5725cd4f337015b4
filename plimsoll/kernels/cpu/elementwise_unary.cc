#include <cmath>
#include <numbers>

#include "plimsoll/kernels/cpu/support/elementwise.h"
#include "plimsoll/kernels/cpu/support/low_precision_copy.h"
#include "plimsoll/kernels/cpu/support/math.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

using program::OpCall;

float real(const OpCall& op_call, const char* attribute) { return static_cast<float>(op_call.real(attribute)); }

const Blocking kMasked{.rule = Blocking::Rule::together, .inputs = {0}, .outputs = {0, 1}};

// y = f(x) and dx = dy * slope(v) where f and slope are made from the call's attributes.
template <class Make>
void unary_of(KernelTable& table, const char* op, Make make) {
  table.add(op, {[make](const KernelCall& call) { return map_kernel(call, make(call.op)); }, contiguous_only, kUnary,
                 by_elements});
}

template <class Make>
void backward_of(KernelTable& table, const char* op, Make make) {
  table.add(op, {[make](const KernelCall& call) {
                   const auto slope = make(call.op);
                   return map2_kernel(call, [slope](float dy, float v) { return dy * slope(v); });
                 },
                 contiguous_only, kBackward, by_elements});
}

// ---- with a bit for each element ----

constexpr int64_t kBits = 8;
constexpr int64_t kWide = 16;  // bits that are made and read at once, in the lanes of a vector

template <class F>
[[gnu::always_inline]] inline unsigned bits_of(const float* x, int64_t count, F inside) {
  unsigned bits = 0;
#pragma omp simd reduction(| : bits)
  for (int64_t i = 0; i < count; ++i) bits |= (inside(x[i]) ? 1U : 0U) << i;
  return bits;
}

// Bit by bit what `inside` says of x; then y = f(x), which may lie where x does.
template <class F, class G>
void map_masked(float* y, uint8_t* mask, const float* x, int64_t count, F f, G inside) {
  vectorised([=] {
    int64_t done = mask == nullptr ? count : 0;
    for (; done + kWide <= count; done += kWide) {
      const unsigned bits = bits_of(x + done, kWide, inside);
      mask[done / kBits] = static_cast<uint8_t>(bits);
      mask[done / kBits + 1] = static_cast<uint8_t>(bits >> kBits);
    }
    for (; done < count; done += kBits) {
      mask[done / kBits] = static_cast<uint8_t>(bits_of(x + done, count - done < kBits ? count - done : kBits, inside));
    }
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) y[i] = f(x[i]);
  });
}

// Calls f(begin, end) for parts that begin at whole bytes of the mask.
template <class F>
void parallel_bytes(int threads, int64_t count, const F& f) {
  parallel(threads, (count + kBits - 1) / kBits, kGrain / kBits,
           [&](int, int64_t begin, int64_t end) { f(begin * kBits, end * kBits < count ? end * kBits : count); });
}

constexpr int64_t kTile = 4096;  // elements that stay in the first cache between the two passes

template <class Make>
void masked(KernelTable& table, const char* op, Make make) {
  table.add(op, {[make](const KernelCall& call) {
                   call.require_f32(0);
                   const auto [f, inside] = make(call.op);
                   const int64_t count = call.out().elements();
                   return plain([=, threads = call.threads, produces = call.produces(1), f_ = f,
                                 inside_ = inside](const Memory& m) {
                     uint8_t* mask = produces ? m.out<uint8_t>(1) : nullptr;
                     return Task([=, x = m.in<float>(0), y = m.out<float>()] {
                       parallel_bytes(threads, count, [=](int64_t begin, int64_t end) {
                         for (int64_t i = begin; i < end; i += kTile) {
                           const int64_t size = end - i < kTile ? end - i : kTile;
                           map_masked(y + i, mask == nullptr ? nullptr : mask + i / kBits, x + i, size, f_, inside_);
                         }
                       });
                     });
                   });
                 },
                 contiguous_only, kMasked, by_elements});
}

// dy times what its bit says; a slope of zero gives zero whatever dy is.
void apply_mask(float* dx, const float* dy, const uint8_t* mask, int64_t count, float set, float clear) {
  vectorised([=] {
    for (int64_t i = 0; i < count; i += kWide) {
      const int64_t lanes = count - i < kWide ? count - i : kWide;
      unsigned bits = mask[i / kBits];
      if (lanes > kBits) bits |= static_cast<unsigned>(mask[i / kBits + 1]) << kBits;
      const auto slope = [=](int64_t lane) { return (bits >> lane & 1U) != 0 ? set : clear; };
      if (lanes == kWide) {
#pragma omp simd
        for (int64_t lane = 0; lane < kWide; ++lane) dx[i + lane] = slope(lane) == 0 ? 0 : dy[i + lane] * slope(lane);
      } else {
        for (int64_t lane = 0; lane < lanes; ++lane) dx[i + lane] = slope(lane) == 0 ? 0 : dy[i + lane] * slope(lane);
      }
    }
  });
}

bool keeps_or_drops(const KernelCall& call) { return real(call.op, "set") == 1 && real(call.op, "clear") == 0; }

Kernel mask_backward(const KernelCall& call) {
  if (!is_low_precision(call.in(0).dtype)) call.require_f32(0);
  const int64_t count = call.out().elements();
  if (keeps_or_drops(call)) {
    const int64_t size = element_bytes(call.out().dtype);
    return plain([=, keep = element_loops(call.out().dtype).keep, threads = call.threads](const Memory& m) -> Task {
      return [=, dy = m.inputs[0], mask = m.in<uint8_t>(1), dx = m.outputs[0]] {
        parallel_bytes(threads, count, [=](int64_t begin, int64_t end) {
          keep(dx + begin * size, dy + begin * size, mask + begin / kBits, end - begin);
        });
      };
    });
  }
  const float set = real(call.op, "set");
  const float clear = real(call.op, "clear");
  return plain([=, threads = call.threads](const Memory& m) -> Task {
    return [=, dy = m.in<float>(0), mask = m.in<uint8_t>(1), dx = m.out<float>()] {
      parallel_bytes(threads, count, [=](int64_t begin, int64_t end) {
        apply_mask(dx + begin, dy + begin, mask + begin / kBits, end - begin, set, clear);
      });
    };
  });
}

Kernel relu(const KernelCall& call) {
  if (!is_low_precision(call.in(0).dtype)) call.require_f32(0);
  const int64_t size = element_bytes(call.in(0).dtype);
  return plain([=, relu = element_loops(call.in(0).dtype).relu, count = call.out().elements(), threads = call.threads,
                produces = call.produces(1)](const Memory& m) -> Task {
    return [=, x = m.inputs[0], y = m.outputs[0], mask = produces ? m.out<uint8_t>(1) : nullptr] {
      parallel_bytes(threads, count, [=](int64_t begin, int64_t end) {
        relu(y + begin * size, mask == nullptr ? nullptr : mask + begin / kBits, x + begin * size, end - begin);
      });
    };
  });
}

// Between low and high; NaN stays.
float clamped(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

void register_masked(KernelTable& table) {
  const auto positive = [](float x) { return x > 0; };
  table.add("relu", {relu, contiguous_only, kMasked, by_elements, any_dtype});
  masked(table, "leaky_relu", [=](const OpCall& op_call) {
    return std::pair([slope = real(op_call, "slope")](float x) { return x > 0 ? x : x * slope; }, positive);
  });
  // && would make branches of it, and no vectors.
  masked(table, "clamp", [](const OpCall& op_call) {
    const float low = real(op_call, "low");
    const float high = real(op_call, "high");
    return std::pair([=](float x) { return clamped(x, low, high); }, [=](float x) { return (x > low) & (x < high); });
  });
  masked(table, "hard_sigmoid", [](const OpCall& op_call) {
    const auto line = [scale = real(op_call, "scale"), shift = real(op_call, "shift")](float x) {
      return scale * x + shift;
    };
    return std::pair([=](float x) { return clamped(line(x), 0, 1); },
                     [=](float x) {
                       const float y = line(x);
                       return (y > 0) & (y < 1);
                     });
  });
  table.add("mask_backward", {mask_backward, contiguous_only, kBackward, by_elements, keeps_or_drops});
}

// ---- smooth ones ----

// In all precisions in place.
Kernel gelu_tanh(const KernelCall& call) {
  if (!is_low_precision(call.in(0).dtype)) call.require_f32(0);
  const int64_t size = element_bytes(call.in(0).dtype);
  return plain([=, gelu = element_loops(call.in(0).dtype).gelu_tanh, count = call.out().elements(),
                threads = call.threads](const Memory& m) -> Task {
    return [=, x = m.inputs[0], y = m.outputs[0]] {
      parallel(threads, count, kGrain,
               [=](int, int64_t begin, int64_t end) { gelu(y + begin * size, x + begin * size, end - begin); });
    };
  });
}

Kernel gelu_tanh_backward(const KernelCall& call) {
  if (!is_low_precision(call.in(0).dtype)) call.require_f32(0);
  const int64_t size = element_bytes(call.in(0).dtype);
  return plain([=, backward = element_loops(call.in(0).dtype).gelu_tanh_backward, count = call.out().elements(),
                threads = call.threads](const Memory& m) -> Task {
    return [=, dy = m.inputs[0], x = m.inputs[1], dx = m.outputs[0]] {
      parallel(threads, count, kGrain, [=](int, int64_t begin, int64_t end) {
        backward(dx + begin * size, dy + begin * size, x + begin * size, end - begin);
      });
    };
  });
}

// The normal distribution: up to x, and at x.
float normal_below(float x) { return (1 + std::erf(x / std::numbers::sqrt2_v<float>)) / 2; }
float normal_at(float x) { return fast_exp(-x * x / 2) * 0.3989422804F; }

float softplus(float x, float beta) {
  return (std::max(beta * x, 0.0F) + std::log1p(std::exp(-std::abs(beta * x)))) / beta;
}

float sign(float x) { return static_cast<float>((x > 0) - (x < 0)); }

void register_reading_output(KernelTable& table) {
  unary(table, "sigmoid", [](float x) { return fast_sigmoid(x); });
  backward(table, "sigmoid_backward", [](float y) { return y * (1 - y); });
  unary(table, "tanh", [](float x) { return std::tanh(x); });
  backward(table, "tanh_backward", [](float y) { return 1 - y * y; });
  unary(table, "exp", [](float x) { return std::exp(x); });
  backward(table, "exp_backward", [](float y) { return y; });
  unary(table, "sqrt", [](float x) { return std::sqrt(x); });
  backward(table, "sqrt_backward", [](float y) { return 1 / (2 * y); });
  unary(table, "rsqrt", [](float x) { return 1 / std::sqrt(x); });
  backward(table, "rsqrt_backward", [](float y) { return -y * y * y / 2; });
  unary(table, "reciprocal", [](float x) { return 1 / x; });
  backward(table, "reciprocal_backward", [](float y) { return -y * y; });
  unary_of(table, "elu", [](const OpCall& op_call) {
    return [alpha = real(op_call, "alpha")](float x) { return x > 0 ? x : alpha * std::expm1(x); };
  });
  backward_of(table, "elu_backward", [](const OpCall& op_call) {
    return [alpha = real(op_call, "alpha")](float y) { return y > 0 ? 1 : y + alpha; };
  });
  unary_of(table, "softplus",
           [](const OpCall& op_call) { return [beta = real(op_call, "beta")](float x) { return softplus(x, beta); }; });
  backward_of(table, "softplus_backward", [](const OpCall& op_call) {
    return [beta = real(op_call, "beta")](float y) { return -std::expm1(-beta * y); };
  });
}

void register_reading_input(KernelTable& table) {
  unary(table, "log", [](float x) { return std::log(x); });
  backward(table, "log_backward", [](float x) { return 1 / x; });
  unary(table, "silu", [](float x) { return x * fast_sigmoid(x); });
  backward(table, "silu_backward", [](float x) { return fast_sigmoid(x) * (1 + x * (1 - fast_sigmoid(x))); });
  unary(table, "gelu", [](float x) { return x * normal_below(x); });
  backward(table, "gelu_backward", [](float x) { return normal_below(x) + x * normal_at(x); });
  table.add("gelu_tanh", {gelu_tanh, contiguous_only, kUnary, by_elements, any_dtype});
  table.add("gelu_tanh_backward", {gelu_tanh_backward, contiguous_only, kBackward, by_elements, any_dtype});
  add_elementwise(
      table, "mish", [](float x) { return x * std::tanh(softplus(x, 1)); },
      [](float x) {
        const float tanh = std::tanh(softplus(x, 1));
        return tanh + x * fast_sigmoid(x) * (1 - tanh * tanh);
      });
  unary(table, "hard_swish", [](float x) { return x * clamped(x / 6 + 0.5F, 0, 1); });
  backward(table, "hard_swish_backward", [](float x) { return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5F; });
  unary(table, "sin", [](float x) { return std::sin(x); });
  backward(table, "sin_backward", [](float x) { return std::cos(x); });
  unary(table, "cos", [](float x) { return std::cos(x); });
  backward(table, "cos_backward", [](float x) { return -std::sin(x); });
  unary(table, "erf", [](float x) { return std::erf(x); });
  backward(table, "erf_backward", [](float x) { return 1.1283791671F * std::exp(-x * x); });
  unary(table, "abs", [](float x) { return std::abs(x); });
  backward(table, "abs_backward", [](float x) { return sign(x); });
  unary(table, "square", [](float x) { return x * x; });
  backward(table, "square_backward", [](float x) { return 2 * x; });
  unary_of(table, "pow_scalar", [](const OpCall& op_call) {
    return [exponent = real(op_call, "exponent")](float x) { return std::pow(x, exponent); };
  });
  backward_of(table, "pow_scalar_backward", [](const OpCall& op_call) {
    return [exponent = real(op_call, "exponent")](float x) {
      return exponent == 0 ? 0 : exponent * std::pow(x, exponent - 1);
    };
  });
}

void register_reading_nothing(KernelTable& table) {
  unary(table, "neg", [](float x) { return -x; });
  unary(table, "sign", [](float x) { return sign(x); });
  unary(table, "floor", [](float x) { return std::floor(x); });
  unary(table, "ceil", [](float x) { return std::ceil(x); });
  unary(table, "round", [](float x) { return std::nearbyint(x); });
  unary_of(table, "affine", [](const OpCall& op_call) {
    const auto factor = static_cast<float>(op_call.real("scale") / static_cast<double>(op_call.integer("divisor")));
    return [factor, shift = real(op_call, "shift")](float x) { return x * factor + shift; };
  });
}

}  // namespace

void register_elementwise_unary_cpu(KernelTable& table) {
  register_masked(table);
  register_reading_output(table);
  register_reading_input(table);
  register_reading_nothing(table);
}

}  // namespace plimsoll::kernels
