// Normalisation of channels over the batch, in row-major order and with channels last.
#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cuda/support/elements.h"
#include "plimsoll/kernels/cuda/support/planes.h"
#include "plimsoll/kernels/cuda/support/sums.h"

namespace plimsoll::kernels {
namespace {

using namespace cuda;  // NOLINT: the whole file is of it

constexpr int64_t kBlocks = 132 * 4;  // measured: more of them read slower

// How x lies, and how its sums are cut.
struct Channels {
  int64_t samples;
  int64_t channels;
  int64_t plane;
  bool last;
  bool vectors;
  int64_t of_vector;  // elements that a thread takes where channels are last and whole vectors
  int64_t parts;

  explicit Channels(const TensorDesc& x)
      : samples(x.shape[0]),
        channels(x.shape[1]),
        plane(x.elements() / (x.shape[0] * x.shape[1])),
        last(x.is_channels_last()),
        of_vector(x.dtype == DType::f32 ? 4 : 8) {
    if (plane == 1) {  // [samples, channels] is channels last anyhow
      last = true;
    }
    vectors = (last ? channels : plane) % 8 == 0;
    const int64_t columns = last ? ceil_div(channels, channels_of_block()) : channels;
    parts = parts_of(rows(), ceil_div(kBlocks, columns), last ? 64 : 2048);
  }
  int64_t rows() const { return samples * plane; }
  int64_t elements() const { return rows() * channels; }
  // Threads of a block side by side, where channels are last: as many as they fill.
  int64_t lanes() const {
    int64_t count = 32;
    while (count > 4 && count * vec() / 2 >= channels) count /= 2;
    return count;
  }
  int64_t channels_of_block() const { return lanes() * vec(); }
  int64_t vec() const { return !vectors ? 1 : last ? of_vector : 8; }
};

// Where sums are taken and results written, for either layout: `function` of batch_norm_rows.cuh or batch_norm.cuh.
Launch norm_launch(const Channels& c, DType dtype, const char* function, DType parameter = DType::f32) {
  Launch launch{c.last ? "batch_norm_rows" : "batch_norm"};
  launch.before = "moments";
  launch.defines.set("T", dtype).set("P", parameter).set("VEC", std::to_string(c.vec()));
  if (c.last) launch.defines.set("LANES", std::to_string(c.lanes()));
  launch.function = function;
  return launch;
}

// What is done with channels: the same for both.
Launch channel_launch(DType parameter, const char* function) {
  Launch launch{"batch_norm"};
  launch.before = "moments";
  launch.defines.set("T", DType::f32).set("P", parameter).set("VEC", "1");
  launch.function = function;
  return launch;
}

Block block_of(const Channels& c) {
  return c.last ? Block{static_cast<unsigned>(c.lanes()), static_cast<unsigned>(256 / c.lanes())} : Block{256, 1};
}

void by_parts(const Channels& c, Launch& launch) {
  launch.grid = {c.last ? ceil_div(c.channels, c.channels_of_block()) : c.channels, c.parts};
  launch.block = block_of(c);
}
void by_channels(const Channels& c, Launch& launch) {
  launch.block = {64, 1};
  launch.grid = {blocks_for(c.channels, 64)};
}
// A warp for each.
void by_warps(const Channels& c, Launch& launch) {
  launch.block = {128, 1};
  launch.grid = {ceil_div(c.channels, 4)};
}
void by_elements(const Channels& c, Launch& launch) {
  launch.block = block_of(c);
  launch.grid = {blocks_for(c.elements(), 256, c.vec())};
  if (!c.last) return;
  const int64_t columns = ceil_div(c.channels, c.channels_of_block());
  launch.grid = {columns, std::min(ceil_div(c.rows(), 256 / c.lanes()), ceil_div(kBlocks, columns))};
}

DType parameter_type(const KernelCall& call, int weight) {
  return weight < call.arity() ? call.in(weight).dtype : DType::f32;
}

void apply(Steps& steps, const Channels& c, At x, At y, At scale_shift) {
  Launch launch = norm_launch(c, steps.call().in(0).dtype, "apply");
  by_elements(c, launch);
  launch.arguments = c.last ? Arguments(c.rows(), c.channels, y, x, scale_shift)
                            : Arguments(c.elements(), c.channels, c.plane, y, x, scale_shift);
  steps.launch(launch);
}

// Mean, rstd and variance of x, operand 0: null where they are not wanted, and so scale and shift.
struct Statistics {
  At mean, rstd, variance, weight, bias, scale_shift;
};

void add_statistics(Steps& steps, const Channels& c, At x, const Statistics& wanted) {
  const KernelCall& call = steps.call();
  const At partial = steps.scratch(c.parts * c.channels * 12);
  Launch moments = norm_launch(c, call.in(0).dtype, "moments");
  by_parts(c, moments);
  moments.arguments =
      c.last ? Arguments(c.rows(), c.channels, partial, x) : Arguments(c.samples, c.channels, c.plane, partial, x);
  steps.launch(moments);
  Launch finish = channel_launch(parameter_type(call, 1), "finish_moments");
  by_warps(c, finish);
  finish.arguments = Arguments(c.parts, c.channels, partial, static_cast<float>(call.op.real("eps")), wanted.mean,
                               wanted.rstd, wanted.variance, wanted.weight, wanted.bias, wanted.scale_shift);
  steps.launch(finish);
}

Kernel forward(const KernelCall& call) {
  Steps steps(call);
  const Channels c(call.in(0));
  const At x = steps.contiguous(0);
  const At scale_shift = steps.scratch(2 * c.channels * 4);
  add_statistics(steps, c, x,
                 {steps.wanted(1), steps.wanted(2), steps.wanted(3), steps.contiguous_or_none(1),
                  steps.contiguous_or_none(2), scale_shift});
  if (call.produces(0)) apply(steps, c, x, out(), scale_shift);
  return steps.kernel();
}

Kernel statistics(const KernelCall& call) {
  Steps steps(call);
  const Channels c(call.in(0));
  add_statistics(steps, c, steps.contiguous(0),
                 {steps.wanted(0), steps.wanted(1), steps.wanted(2), none(), none(), none()});
  return steps.kernel();
}

// In one pass where channels are last and whole vectors; otherwise by way of scratch.
Kernel forward_relu(const KernelCall& call) {
  Steps steps(call);
  const Channels c(call.in(0));
  const DType parameter = call.in(3).dtype;
  const At x = steps.contiguous(0);
  const At mean = steps.contiguous(1);
  const At rstd = steps.contiguous(2);
  const At weight = steps.contiguous(3);
  const At bias = steps.contiguous(4);
  const At residual = steps.contiguous_or_none(5);
  const bool adds = call.arity() > 5;
  if (c.last && c.vectors) {
    Launch launch = norm_launch(c, call.in(0).dtype, "apply_relu", parameter);
    by_elements(c, launch);
    if (adds) launch.defines.set("RESIDUAL");
    launch.arguments =
        Arguments(c.rows(), c.channels, steps.wanted(0), steps.wanted(1), x, residual, mean, rstd, weight, bias);
    steps.launch(launch);
    return steps.kernel();
  }
  const At scale_shift = steps.scratch(2 * c.channels * 4);
  Launch numbers = channel_launch(parameter, "scale_and_shift");
  by_channels(c, numbers);
  numbers.arguments = Arguments(c.channels, mean, rstd, weight, bias, scale_shift);
  steps.launch(numbers);
  const At normal = steps.scratch(call.in(0).bytes());
  apply(steps, c, x, normal, scale_shift);
  const std::string sum = adds ? "(x0 + x1)" : "x0";
  std::vector<Term> terms = {{normal, in_order(call.in(0))}};
  if (adds) terms.push_back({residual, in_order(call.in(5))});
  steps.launch(element_launch({.value = sum + " <= 0 ? 0 : " + sum, .taken = sum + " > 0"}, terms, call.out(),
                              steps.wanted(0), steps.wanted(1)));
  return steps.kernel();
}

struct Sums {
  At mean, rstd, weight, dweight, dbias, factors;
  DType parameter;
};

// dweight, dbias and, where asked, the factors of dx. `mask`: of a ReLU that followed, where that is in one pass.
void slopes(Steps& steps, const Channels& c, DType dtype, At dy, At mask, At x, const Sums& sums) {
  const At partial = steps.scratch(c.parts * 2 * c.channels * 4);
  Launch parts = norm_launch(c, dtype, "slopes");
  by_parts(c, parts);
  if (mask.where != At::Where::none) parts.defines.set("RELU");
  parts.arguments = c.last ? Arguments(c.rows(), c.channels, partial, dy, mask, x, sums.mean, sums.rstd)
                           : Arguments(c.samples, c.channels, c.plane, partial, dy, x, sums.mean, sums.rstd);
  steps.launch(parts);
  Launch finish = channel_launch(sums.parameter, "finish_slopes");
  by_warps(c, finish);
  finish.arguments = Arguments(c.parts, c.channels, static_cast<float>(c.rows()), partial, sums.mean, sums.rstd,
                               sums.weight, sums.dweight, sums.dbias, sums.factors);
  steps.launch(finish);
}

// From dy and x; the statistics are operands from `mean` on.
void add_backward(Steps& steps, const Channels& c, At dy, At mask, At x, int mean, At dresidual) {
  const KernelCall& call = steps.call();
  const DType dtype = call.in(0).dtype;
  const int weight = mean + 2;
  const DType parameter = call.arity() > weight ? call.in(weight).dtype
                          : call.produces(1)    ? call.out(1).dtype
                                                : DType::f32;
  const bool wants_dx = call.produces(0) || dresidual.where != At::Where::none;
  const At factors = wants_dx ? steps.scratch(3 * c.channels * 4) : none();
  slopes(steps, c, dtype, dy, mask, x,
         {steps.contiguous(mean), steps.contiguous(mean + 1), steps.contiguous_or_none(weight), steps.wanted(1),
          steps.wanted(2), factors, parameter});
  if (!wants_dx) return;
  Launch launch = norm_launch(c, dtype, "apply_backward");
  by_elements(c, launch);
  if (mask.where != At::Where::none) launch.defines.set("RELU");
  launch.arguments = c.last ? Arguments(c.rows(), c.channels, steps.wanted(0), dresidual, dy, mask, x, factors)
                            : Arguments(c.elements(), c.channels, c.plane, out(), dy, x, factors);
  steps.launch(launch);
}

Kernel backward(const KernelCall& call) {
  Steps steps(call);
  const Channels c(call.in(0));
  const At dy = steps.contiguous(0);
  add_backward(steps, c, dy, none(), steps.contiguous(1), 2, none());
  return steps.kernel();
}

Kernel backward_relu(const KernelCall& call) {
  Steps steps(call);
  const Channels c(call.in(0));
  const At dy = steps.contiguous(0);
  const At mask = steps.contiguous(1);
  const At x = steps.contiguous(2);
  if (c.last && c.vectors) {
    add_backward(steps, c, dy, mask, x, 3, steps.wanted(3));
    return steps.kernel();
  }
  const At kept = call.produces(3) ? out(3) : steps.scratch(call.in(0).bytes());
  steps.launch(element_launch({.value = "bit ? x0 : 0", .reads_mask = true}, {{dy, in_order(call.in(0))}},
                              in_order(call.in(0)), kept, mask));
  add_backward(steps, c, kept, none(), x, 3, none());
  return steps.kernel();
}

Kernel update(const KernelCall& call) {
  Steps steps(call);
  Launch launch{"batch_norm_update"};
  for (int i = 0; i < 4; ++i) launch.defines.set("T" + std::to_string(i), call.in(i).dtype);
  const int64_t n = call.in(0).elements();
  const auto count = static_cast<float>(call.op.integer("count"));
  launch.grid = {blocks_for(n)};
  launch.arguments = Arguments(n, out(0), out(1), steps.contiguous(2), steps.contiguous(3),
                               static_cast<float>(call.op.real("momentum")), count / (count - 1));
  steps.launch(launch);
  return steps.kernel();
}

// Operands x, then mean and variance from `mean` on (-1: no mean), then weight and bias.
Kernel inference(const KernelCall& call, int mean, int variance, int weight) {
  Steps steps(call);
  const Channels c(call.in(0));
  const DType parameter = weight < call.arity() ? call.in(weight).dtype : call.in(variance).dtype;
  const At x = steps.contiguous(0);
  const At scale_shift = steps.scratch(2 * c.channels * 4);
  Launch given = channel_launch(parameter, "given");
  given.defines.set("S", call.in(variance).dtype);
  by_channels(c, given);
  given.arguments = Arguments(c.channels, mean < 0 ? none() : steps.contiguous(mean), steps.contiguous(variance),
                              static_cast<float>(call.op.real("eps")), steps.contiguous_or_none(weight),
                              steps.contiguous_or_none(weight + 1), scale_shift);
  steps.launch(given);
  apply(steps, c, x, out(), scale_shift);
  return steps.kernel();
}

Kernel inference_backward_affine(const KernelCall& call) {
  Steps steps(call);
  const Channels c(call.in(0));
  const DType dtype = call.in(0).dtype;
  const DType parameter = call.out(0).dtype;
  const At means = steps.scratch(c.channels * 4);
  const At rstds = steps.scratch(c.channels * 4);
  Launch given = channel_launch(parameter, "given_inverse");
  given.defines.set("S", call.in(3).dtype);
  by_channels(c, given);
  given.arguments = Arguments(c.channels, steps.contiguous(2), steps.contiguous(3),
                              static_cast<float>(call.op.real("eps")), means, rstds);
  steps.launch(given);
  const At dy = steps.contiguous(0);
  slopes(steps, c, dtype, dy, none(), steps.contiguous(1),
         {means, rstds, none(), steps.wanted(0), steps.wanted(1), none(), parameter});
  return steps.kernel();
}

}  // namespace

void register_batch_norm_cuda(KernelTable& table) {
  table.add("batch_norm", {forward, any_layout, planes_together({0}, {0})});
  table.add("batch_norm_backward", {backward, any_layout, planes_together({0, 1}, {0})});
  table.add("batch_norm_statistics", {statistics, any_layout, planes_together({0}, {})});
  table.add("batch_norm_relu", {forward_relu, any_layout, planes_together({0, 5}, {0, 1})});
  table.add("batch_norm_relu_backward", {backward_relu, any_layout, planes_together({0, 1, 2}, {0, 3})});
  table.add("batch_norm_update", {update, any_layout});
  table.add("batch_norm_inference",
            {[](const KernelCall& call) { return inference(call, 1, 2, 3); }, any_layout, planes_together({0}, {0})});
  table.add("batch_norm_inference_backward",
            {[](const KernelCall& call) { return inference(call, -1, 1, 2); }, any_layout, planes_together({0}, {0})});
  table.add("batch_norm_inference_backward_affine", {inference_backward_affine, any_layout});
}

}  // namespace plimsoll::kernels
