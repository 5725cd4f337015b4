// Normalisation of channels over the batch, in row-major order and with channels last.
#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cuda/support/sums.h"

namespace plimsoll::kernels {
namespace {

using namespace cuda;  // NOLINT: the whole file is of it

constexpr int64_t kBlocks = 132 * 8;

// How x lies, and how its sums are cut.
struct Channels {
  int64_t samples;
  int64_t channels;
  int64_t plane;
  bool last;
  bool vectors;
  int64_t parts;

  explicit Channels(const TensorDesc& x)
      : samples(x.shape[0]),
        channels(x.shape[1]),
        plane(x.elements() / (x.shape[0] * x.shape[1])),
        last(x.is_channels_last()) {
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
  int64_t vec() const { return vectors ? 8 : 1; }
};

Launch norm_launch(const Channels& c, DType dtype, DType parameter, const char* function) {
  Launch launch{"batch_norm"};
  launch.defines.set("T", dtype).set("P", parameter).set("VEC", c.vectors ? "8" : "1");
  if (c.last) launch.defines.set("LAST").set("LANES", std::to_string(c.lanes()));
  launch.function = function;
  return launch;
}

void by_parts(const Channels& c, Launch& launch) {
  launch.grid = {c.last ? ceil_div(c.channels, c.channels_of_block()) : c.channels, c.parts};
  if (c.last) launch.block = {static_cast<unsigned>(c.lanes()), static_cast<unsigned>(256 / c.lanes())};
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
void by_elements(const Channels& c, Launch& launch) { launch.grid = {blocks_for(c.elements(), 256, c.vec())}; }

// What `moments` and `slopes` take first.
int64_t first_size(const Channels& c) { return c.last ? c.rows() : c.samples; }

DType parameter_type(const KernelCall& call, int weight) {
  return weight < call.arity() ? call.in(weight).dtype : DType::f32;
}

void apply(Steps& steps, const Channels& c, DType parameter, At x, At scale_shift) {
  Launch launch = norm_launch(c, steps.call().in(0).dtype, parameter, "apply");
  by_elements(c, launch);
  launch.arguments = Arguments(c.elements(), c.channels, c.plane, out(), x, scale_shift);
  steps.launch(launch);
}

Kernel forward(const KernelCall& call) {
  Steps steps(call);
  const Channels c(call.in(0));
  const DType parameter = parameter_type(call, 1);
  const At x = steps.contiguous(0);
  const At weight = steps.contiguous_or_none(1);
  const At bias = steps.contiguous_or_none(2);
  const At partial = steps.scratch(c.parts * c.channels * 12);
  const At scale_shift = steps.scratch(2 * c.channels * 4);
  Launch moments = norm_launch(c, call.in(0).dtype, parameter, "moments");
  by_parts(c, moments);
  moments.arguments = Arguments(first_size(c), c.channels, c.plane, partial, x);
  steps.launch(moments);
  Launch finish = norm_launch(c, call.in(0).dtype, parameter, "finish_moments");
  by_warps(c, finish);
  finish.arguments = Arguments(c.parts, c.channels, partial, static_cast<float>(call.op.real("eps")), steps.wanted(1),
                               steps.wanted(2), steps.wanted(3), weight, bias, scale_shift);
  steps.launch(finish);
  if (call.produces(0)) apply(steps, c, parameter, x, scale_shift);
  return steps.kernel();
}

struct Sums {
  At mean, rstd, weight, dweight, dbias, factors;
};

// dweight, dbias and, where asked, the factors of dx.
void slopes(Steps& steps, const Channels& c, DType dtype, DType parameter, At dy, At x, const Sums& sums) {
  const At partial = steps.scratch(c.parts * 2 * c.channels * 4);
  Launch parts = norm_launch(c, dtype, parameter, "slopes");
  by_parts(c, parts);
  parts.arguments = Arguments(first_size(c), c.channels, c.plane, partial, dy, x, sums.mean, sums.rstd);
  steps.launch(parts);
  Launch finish = norm_launch(c, dtype, parameter, "finish_slopes");
  by_warps(c, finish);
  finish.arguments = Arguments(c.parts, c.channels, static_cast<float>(c.rows()), partial, sums.mean, sums.rstd,
                               sums.weight, sums.dweight, sums.dbias, sums.factors);
  steps.launch(finish);
}

Kernel backward(const KernelCall& call) {
  Steps steps(call);
  const Channels c(call.in(0));
  const DType dtype = call.in(0).dtype;
  const DType parameter = call.arity() > 4 ? call.in(4).dtype : call.produces(1) ? call.out(1).dtype : DType::f32;
  const At dy = steps.contiguous(0);
  const At x = steps.contiguous(1);
  const At factors = call.produces(0) ? steps.scratch(3 * c.channels * 4) : none();
  slopes(steps, c, dtype, parameter, dy, x,
         {steps.contiguous(2), steps.contiguous(3), steps.contiguous_or_none(4), steps.wanted(1), steps.wanted(2),
          factors});
  if (call.produces(0)) {
    Launch launch = norm_launch(c, dtype, parameter, "apply_backward");
    by_elements(c, launch);
    launch.arguments = Arguments(c.elements(), c.channels, c.plane, out(), dy, x, factors);
    steps.launch(launch);
  }
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
  Launch given = norm_launch(c, call.in(0).dtype, parameter, "given");
  given.defines.set("S", call.in(variance).dtype);
  by_channels(c, given);
  given.arguments = Arguments(c.channels, mean < 0 ? none() : steps.contiguous(mean), steps.contiguous(variance),
                              static_cast<float>(call.op.real("eps")), steps.contiguous_or_none(weight),
                              steps.contiguous_or_none(weight + 1), scale_shift);
  steps.launch(given);
  apply(steps, c, parameter, x, scale_shift);
  return steps.kernel();
}

Kernel inference_backward_affine(const KernelCall& call) {
  Steps steps(call);
  const Channels c(call.in(0));
  const DType dtype = call.in(0).dtype;
  const DType parameter = call.out(0).dtype;
  const At means = steps.scratch(c.channels * 4);
  const At rstds = steps.scratch(c.channels * 4);
  Launch given = norm_launch(c, dtype, parameter, "given_inverse");
  given.defines.set("S", call.in(3).dtype);
  by_channels(c, given);
  given.arguments = Arguments(c.channels, steps.contiguous(2), steps.contiguous(3),
                              static_cast<float>(call.op.real("eps")), means, rstds);
  steps.launch(given);
  slopes(steps, c, dtype, parameter, steps.contiguous(0), steps.contiguous(1),
         {means, rstds, none(), steps.wanted(0), steps.wanted(1), none()});
  return steps.kernel();
}

Blocking together(std::vector<int> inputs) {
  Blocking blocking;
  blocking.rule = Blocking::Rule::together;
  blocking.inputs = std::move(inputs);
  blocking.outputs = {0};
  return blocking;
}

}  // namespace

void register_batch_norm_cuda(KernelTable& table) {
  table.add("batch_norm", {forward, any_layout, together({0})});
  table.add("batch_norm_backward", {backward, any_layout, together({0, 1})});
  table.add("batch_norm_update", {update, any_layout});
  table.add("batch_norm_inference",
            {[](const KernelCall& call) { return inference(call, 1, 2, 3); }, any_layout, together({0})});
  table.add("batch_norm_inference_backward",
            {[](const KernelCall& call) { return inference(call, -1, 1, 2); }, any_layout, together({0})});
  table.add("batch_norm_inference_backward_affine", {inference_backward_affine, any_layout});
}

}  // namespace plimsoll::kernels
