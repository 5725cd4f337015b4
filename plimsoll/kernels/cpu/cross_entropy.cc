// Cross entropy without a softmax in memory: a pass over each line of logits for the log of its sum of exponentials,
// and in the backward pass the probabilities again from that.
#include <fmt/format.h>

#include <cmath>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/kernels/cpu/support/halves_copy.h"
#include "plimsoll/kernels/cpu/support/lines.h"
#include "plimsoll/kernels/cut.h"

namespace plimsoll::kernels {
namespace {

struct Classes {
  Lines lines;
  int threads;
  int64_t ignored;
  float smoothing;
  bool each;  // a loss for each line
  bool mean;
  std::string op;  // for messages

  Classes(const Use& use, int logits)
      : lines(use.in(logits), use.call.axis("axis", logits)),
        threads(use.threads),
        ignored(use.call.integer("ignored_index")),
        smoothing(static_cast<float>(use.call.real("label_smoothing"))),
        each(use.call.word("reduction") == "none"),
        mean(use.call.word("reduction") == "mean"),
        op(fmt::format("{} %{}", use.call.def.name, use.call.label)) {
    if (!is_half(use.in(logits).dtype)) use.require_f32(logits);
    if (use.in(logits + 1).dtype != DType::i64) use.unsupported("the CPU reads targets of i64");
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

  // The loss of one line.
  float loss(const float* logits, int64_t target, float lse) const {
    const float right = lse - logits[target * lines.stride];
    if (smoothing == 0) return right;
    float sum = 0;
    for (int64_t i = 0; i < lines.length; ++i) sum += lse - logits[i * lines.stride];
    return (1 - smoothing) * right + smoothing * sum / static_cast<float>(lines.length);
  }
};

// Where a thread has a line of logits in f32, when they are f16 or bf16.
struct LineRoom {
  int64_t offset;
  int64_t line_bytes;

  LineRoom(const Use& use, const Lines& lines, int64_t after)
      : offset(after), line_bytes(has_halves(use) ? align_up(lines.length * 4, kAlignment) : 0) {}
  int64_t bytes(int threads) const { return threads * line_bytes; }
  float* at(std::byte* scratch, int part) const {
    return reinterpret_cast<float*>(scratch + offset + part * line_bytes);
  }
};

// Lines that lie in one piece are read one by one, so only they may be f16 or bf16.
template <int kLogits>
bool reads_lines(const Use& use) {
  return halves_only_in(use, {kLogits}, {kLogits - 1}) &&
         Lines(use.in(kLogits), use.call.axis("axis", kLogits)).stride == 1;
}

Kernel forward(const Use& use) {
  const Classes classes(use, 0);
  const int64_t sums = align_up(classes.threads * 8, kAlignment);
  const LineRoom room(use, classes.lines, sums);
  return {sums + room.bytes(use.threads), [=, wants_lse = use.wants(1), tensor = use.in(0)](const Memory& m) -> Task {
            return [=, logits = WideInput(tensor, m.inputs[0]), own = m.scratch, targets = m.in<int64_t>(1),
                    loss = m.out<float>(), lse = wants_lse ? m.out<float>(1) : nullptr,
                    partial = m.scratch_at<double>(0)] {
              const int64_t counted = classes.count(targets);
              const Lines& lines = classes.lines;
              for (int part = 0; part < classes.threads; ++part) partial[part] = 0;
              parallel(classes.threads, lines.count(), lines.grain(), [&](int part, int64_t begin, int64_t end) {
                double sum = 0;
                for (int64_t line = begin; line < end; ++line) {
                  const bool counts = targets[line] != classes.ignored;
                  const float* x = logits.line(lines.start(line), lines.length, room.at(own, part));
                  const float log_sum = counts ? lines.log_sum_exp(x) : 0;
                  const float part_loss = counts ? classes.loss(x, targets[line], log_sum) : 0;
                  if (lse != nullptr) lse[line] = log_sum;
                  if (classes.each) loss[line] = part_loss;
                  sum += static_cast<double>(part_loss);
                }
                partial[part] = sum;
              });
              if (classes.each) return;
              double total = 0;
              for (int part = 0; part < classes.threads; ++part) total += partial[part];
              *loss = static_cast<float>(classes.mean ? total / static_cast<double>(counted) : total);
            };
          }};
}

// slope * (probability - share) along one line; dx may lie where x does.
void line_gradient(float* dx, const float* x, int64_t stride, int64_t length, float lse, float slope, float share) {
  if (stride == 1) return simd::functions().exp_slope(dx, x, length, lse, slope, share);
  for (int64_t i = 0; i < length; ++i) dx[i * stride] = slope * (fast_exp(x[i * stride] - lse) - share);
}

Kernel backward(const Use& use) {
  const Classes classes(use, 1);
  const LineRoom room(use, classes.lines, 0);
  return {room.bytes(use.threads), [=, tensor = use.in(1)](const Memory& m) -> Task {
            return [=, dloss = m.in<float>(0), logits = WideInput(tensor, m.inputs[1]), targets = m.in<int64_t>(2),
                    lse = m.in<float>(3), dx = WideOutput(tensor, m.outputs[0]), own = m.scratch] {
              const Lines& lines = classes.lines;
              const float share = classes.smoothing / static_cast<float>(lines.length);
              const float divisor = classes.mean ? static_cast<float>(classes.count(targets)) : 1;
              parallel(classes.threads, lines.count(), lines.grain(), [&](int part, int64_t begin, int64_t end) {
                for (int64_t line = begin; line < end; ++line) {
                  const int64_t at = lines.start(line);
                  float* to = dx.line(at, room.at(own, part));
                  if (targets[line] == classes.ignored) {
                    for (int64_t i = 0; i < lines.length; ++i) to[i * lines.stride] = 0;
                  } else {
                    const float slope = dloss[classes.each ? line : 0] / divisor;
                    const float* x = logits.line(at, lines.length, room.at(own, part));
                    line_gradient(to, x, lines.stride, lines.length, lse[line], slope, share);
                    to[targets[line] * lines.stride] -= slope * (1 - classes.smoothing);
                  }
                  dx.keep(at, lines.length, to);
                }
              });
            };
          }};
}

}  // namespace

void register_cross_entropy_cpu(KernelTable& table) {
  table.add("cross_entropy", {forward, contiguous_only, {}, nullptr, reads_lines<0>});
  table.add("cross_entropy_backward", {backward, contiguous_only, {}, nullptr, reads_lines<1>});
}

}  // namespace plimsoll::kernels
