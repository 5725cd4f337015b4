// Cross entropy without a softmax in memory: a pass over each line of logits for the log of its sum of exponentials,
// and in the backward pass the probabilities again from that. Lines that lie in one piece are read and written in f16
// and bf16 as they are.
#include <fmt/format.h>

#include <cmath>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/kernels/cpu/support/lines.h"
#include "plimsoll/kernels/cpu/support/low_precision.h"
#include "plimsoll/kernels/cpu/support/low_precision_copy.h"
#include "plimsoll/kernels/cpu/support/sums.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

// An element of f32, f16 or bf16.
float read(DType dtype, const std::byte* at) {
  if (dtype == DType::f32) return *reinterpret_cast<const float*>(at);
  const uint16_t half = *reinterpret_cast<const uint16_t*>(at);
  return dtype == DType::bf16 ? from_bf16(half) : from_f16(half);
}

void write(DType dtype, std::byte* at, float x) {
  if (dtype == DType::f32) {
    *reinterpret_cast<float*>(at) = x;
  } else {
    *reinterpret_cast<uint16_t*>(at) = dtype == DType::bf16 ? to_bf16(x) : to_f16(x);
  }
}

struct Classes {
  Lines lines;
  DType dtype;
  int threads;
  int64_t ignored;
  float smoothing;
  bool each;  // a loss for each line
  bool mean;
  std::string op;  // for messages

  Classes(const KernelCall& call, int logits)
      : lines(call.in(logits), call.op.axis("axis", logits)),
        dtype(call.in(logits).dtype),
        threads(call.threads),
        ignored(call.op.integer("ignored_index")),
        smoothing(static_cast<float>(call.op.real("label_smoothing"))),
        each(call.op.word("reduction") == "none"),
        mean(call.op.word("reduction") == "mean"),
        op(fmt::format("{} %{}", call.op.def.name, call.op.label)) {
    if (!is_low_precision(call.in(logits).dtype)) call.require_f32(logits);
    if (call.in(logits + 1).dtype != DType::i64) call.unsupported("the CPU reads targets of i64");
  }

  // How many targets are not ignored. ArgumentError for one that is no class.
  int64_t count(const int64_t* targets) const {
    int64_t counted = 0;
    for (int64_t line = 0; line < lines.count(); ++line) {
      if (targets[line] == ignored) continue;
      if (targets[line] < 0 || targets[line] >= lines.length) {
        throw ArgumentError(fmt::format("{}: target {} at place {} is no class: expected 0 to {}, or {} to ignore it",
                                        op, targets[line], line, lines.length - 1, ignored));
      }
      ++counted;
    }
    return counted;
  }

  // Of the elements of a line, one after the other, and of lines.
  int64_t step_bytes() const { return lines.stride * element_bytes(dtype); }
  int64_t begin_bytes(int64_t line) const { return lines.start(line) * element_bytes(dtype); }
  float logit(const std::byte* x, int64_t i) const { return read(dtype, x + i * step_bytes()); }

  float log_sum_exp(const std::byte* x) const {
    if (lines.stride != 1) return lines.log_sum_exp(reinterpret_cast<const float*>(x));
    return kernels::log_sum_exp(element_loops(dtype), x, lines.length);
  }

  // The loss of one line.
  float loss(const std::byte* x, int64_t target, float lse) const {
    const float right = lse - logit(x, target);
    if (smoothing == 0) return right;
    float sum = 0;
    for (int64_t i = 0; i < lines.length; ++i) sum += lse - logit(x, i);
    return (1 - smoothing) * right + smoothing * sum / static_cast<float>(lines.length);
  }
};

// Only lines that lie in one piece may be f16 or bf16.
template <int kLogits>
bool reads_lines(const KernelCall& call) {
  return low_precision_only_in(call, {kLogits}, {kLogits - 1}) &&
         Lines(call.in(kLogits), call.op.axis("axis", kLogits)).stride == 1;
}

Kernel forward(const KernelCall& call) {
  const Classes classes(call, 0);
  const int64_t sums = align_up(kSumParts * 8, kAlignment);
  return {sums, [=, wants_lse = call.produces(1)](const Memory& m) -> Task {
            return [=, logits = m.inputs[0], targets = m.in<int64_t>(1), loss = m.out<float>(),
                    lse = wants_lse ? m.out<float>(1) : nullptr, partial = m.scratch_at<double>(0)] {
              const int64_t counted = classes.count(targets);
              const Lines& lines = classes.lines;
              parallel_sums(classes.threads, lines.count(), lines.grain(),
                            [&](int part, int, int64_t begin, int64_t end) {
                              double sum = 0;
                              for (int64_t line = begin; line < end; ++line) {
                                const bool counts = targets[line] != classes.ignored;
                                const std::byte* x = logits + classes.begin_bytes(line);
                                const float log_sum = counts ? classes.log_sum_exp(x) : 0;
                                const float part_loss = counts ? classes.loss(x, targets[line], log_sum) : 0;
                                if (lse != nullptr) lse[line] = log_sum;
                                if (classes.each) loss[line] = part_loss;
                                sum += static_cast<double>(part_loss);
                              }
                              partial[part] = sum;
                            });
              if (classes.each) return;
              double total = 0;
              for (int part = 0; part < sum_parts(lines.count(), lines.grain()); ++part) total += partial[part];
              *loss = static_cast<float>(classes.mean ? total / static_cast<double>(counted) : total);
            };
          }};
}

// What the gradient of one line is made of.
struct LineSlope {
  float lse, slope;
  float share;  // of the smoothing, that each class has
};

// slope * (probability - share) along one line; dx may lie where x does.
void line_gradient(DType dtype, std::byte* dx, const std::byte* x, int64_t stride, int64_t length, const LineSlope& s) {
  if (stride == 1) return element_loops(dtype).exp_slope(dx, x, length, s.lse, s.slope, s.share);
  const auto* from = reinterpret_cast<const float*>(x);
  auto* to = reinterpret_cast<float*>(dx);
  for (int64_t i = 0; i < length; ++i) to[i * stride] = s.slope * (fast_exp(from[i * stride] - s.lse) - s.share);
}

// Likewise of the class that is right, in f32, so that what is nearly 1 or nearly 0 is subtracted before it is rounded.
float right_gradient(const Classes& classes, float logit, const LineSlope& s) {
  float dx = 0;
  line_gradient(DType::f32, reinterpret_cast<std::byte*>(&dx), reinterpret_cast<const std::byte*>(&logit),
                classes.lines.stride, 1, s);
  return dx - s.slope * (1 - classes.smoothing);
}

void clear_line(const Classes& classes, std::byte* dx) {
  for (int64_t i = 0; i < classes.lines.length; ++i) write(classes.dtype, dx + i * classes.step_bytes(), 0);
}

Kernel backward(const KernelCall& call) {
  const Classes classes(call, 1);
  return plain([=](const Memory& m) -> Task {
    return [=, dloss = m.in<float>(0), logits = m.inputs[1], targets = m.in<int64_t>(2), lse = m.in<float>(3),
            dlogits = m.outputs[0]] {
      const Lines& lines = classes.lines;
      const float share = classes.smoothing / static_cast<float>(lines.length);
      const float divisor = classes.mean ? static_cast<float>(classes.count(targets)) : 1;
      parallel(classes.threads, lines.count(), lines.grain(), [&](int, int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end; ++line) {
          const std::byte* x = logits + classes.begin_bytes(line);
          std::byte* dx = dlogits + classes.begin_bytes(line);
          const int64_t target = targets[line];
          if (target == classes.ignored) {
            clear_line(classes, dx);
            continue;
          }
          const LineSlope slope{lse[line], dloss[classes.each ? line : 0] / divisor, share};
          const float right = right_gradient(classes, classes.logit(x, target), slope);
          line_gradient(classes.dtype, dx, x, lines.stride, lines.length, slope);
          write(classes.dtype, dx + target * classes.step_bytes(), right);
        }
      });
    };
  });
}

}  // namespace

void register_cross_entropy_cpu(KernelTable& table) {
  table.add("cross_entropy", {forward, contiguous_only, {}, nullptr, reads_lines<0>});
  table.add("cross_entropy_backward", {backward, contiguous_only, {}, nullptr, reads_lines<1>});
}

}  // namespace plimsoll::kernels
