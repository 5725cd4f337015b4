// Normalisation of channels over the batch, a group of channels to a thread.
#include <cmath>

#include "plimsoll/kernels/cpu/support/channel_rows.h"
#include "plimsoll/kernels/cpu/support/channels.h"
#include "plimsoll/kernels/cpu/support/vectorised.h"

namespace plimsoll::kernels {
namespace {

// What is done to the elements of a plane depends on the channel: one number for each lane.
using Lanes = std::array<float, kChannelBlock>;

struct Norm : Channels {
  float eps;
  int threads;
  int64_t scratch_bytes;  // room for two planes of each thread

  explicit Norm(const KernelCall& call)
      : Channels(call.in(0)),
        eps(static_cast<float>(call.op.real("eps"))),
        threads(call.threads),
        scratch_bytes(workspace_bytes(call, 2)) {
    for (int i = 0; i < call.arity(); ++i) {
      if (!is_low_precision(call.in(i).dtype)) call.require_f32(i);
    }
  }

  WideInput input(const Memory& m, size_t i) const { return {image, m.inputs[i]}; }
  WideOutput output(const Memory& m, bool made = true) const { return {image, made ? m.outputs[0] : nullptr}; }

  double count() const { return static_cast<double>(batch * positions); }
  template <class F>
  void for_each(const F& f) const {
    for_each_group(threads, f);
  }
  // lanes[i] = f(channel) for the channels of a group.
  template <class F>
  Lanes each_lane(int64_t group, const F& f) const {
    Lanes values{};
    for (int64_t lane = 0; lane < lanes; ++lane) values[static_cast<size_t>(lane)] = f(group * lanes + lane, lane);
    return values;
  }
};

// The planes of a group of channels as f32, as one thread reads and writes them.
struct PlanesOf {
  const Norm& c;  // NOLINT
  std::byte* scratch;
  int part;
  int64_t group;

  const float* read(const WideInput& x, int64_t n, int workspace = 0) const {
    return c.read(x, n, group, c.workspace(scratch, 2, part, workspace));
  }
  // Calls f(where the plane is to be made), which may lie where a plane was read that had the first room.
  template <class F>
  void write(const WideOutput& y, int64_t n, const F& f) const {
    c.write(y, n, group, c.workspace(scratch, 2, part, 0), f);
  }
};

float or_else(const float* values, int64_t at, float otherwise) { return values == nullptr ? otherwise : values[at]; }
double sum_of(const LaneSums& sums, int64_t lane) { return sums[static_cast<size_t>(lane)]; }

// Calls f(element, lane) for all elements of a plane, as vectors.
template <class F>
[[gnu::always_inline]] inline void for_each_element(int64_t lanes, int64_t positions, F f) {
  if (lanes == 1) {
#pragma omp simd
    for (int64_t i = 0; i < positions; ++i) f(i, 0);
    return;
  }
  for (int64_t i = 0; i < positions; ++i) {
#pragma omp simd
    for (int64_t lane = 0; lane < kChannelBlock; ++lane) f(i * kChannelBlock + lane, lane);
  }
}

template <class F>
[[gnu::always_inline]] inline void add_all(LaneSums& sums, int64_t lanes, int64_t positions, F f) {
  if (lanes == 1) {
    add_line(sums, positions, f);
  } else {
    add_lanes(sums, positions, f);
  }
}

void plane_squares(LaneSums& sums, const Channels& c, const float* x, const Lanes& mean) {
  vectorised([=, &sums, &c] {
    const Lanes m = mean;
    add_all(sums, c.lanes, c.positions, [&m, x](int64_t i, int64_t lane) {
      const float centred = x[i] - m[static_cast<size_t>(lane)];
      return centred * centred;
    });
  });
}

// y = (x - mean) * scale + shift
void plane_affine(const Channels& c, float* y, const float* x, const Lanes& mean, const Lanes& scale,
                  const Lanes& shift) {
  vectorised([=, &c] {
    const Lanes m = mean;
    const Lanes a = scale;
    const Lanes b = shift;
    for_each_element(c.lanes, c.positions, [&, x, y](int64_t i, int64_t lane) {
      const auto at = static_cast<size_t>(lane);
      y[i] = (x[i] - m[at]) * a[at] + b[at];
    });
  });
}

// Sums of dy * (x - mean).
void plane_products(LaneSums& sums, const Channels& c, const float* dy, const float* x, const Lanes& mean) {
  vectorised([=, &sums, &c] {
    const Lanes m = mean;
    add_all(sums, c.lanes, c.positions,
            [&m, x, dy](int64_t i, int64_t lane) { return dy[i] * (x[i] - m[static_cast<size_t>(lane)]); });
  });
}

// dx = scale * (dy - level - (x - mean) * slope)
void plane_gradient(const Channels& c, float* dx, const float* dy, const float* x, const Lanes& scale,
                    const Lanes& level, const Lanes& mean, const Lanes& slope) {
  vectorised([=, &c] {
    const Lanes a = scale;
    const Lanes l = level;
    const Lanes m = mean;
    const Lanes s = slope;
    for_each_element(c.lanes, c.positions, [&, dx, dy, x](int64_t i, int64_t lane) {
      const auto at = static_cast<size_t>(lane);
      dx[i] = a[at] * (dy[i] - l[at] - (x[i] - m[at]) * s[at]);
    });
  });
}

Kernel forward(const KernelCall& call) {
  const Norm c(call);
  return {
      c.scratch_bytes, [c, made = call.requested](const Memory& m) -> Task {
        const auto produced_or_null = [&](size_t k) { return made[k] ? m.out<float>(static_cast<int>(k)) : nullptr; };
        return [=, x = c.input(m, 0), weight = m.in<float>(1), bias = m.in<float>(2), y = c.output(m),
                scratch = m.scratch, means = produced_or_null(1), rstds = produced_or_null(2),
                variances = produced_or_null(3)] {
          c.for_each([=](int part, int64_t group) {
            const PlanesOf planes{c, scratch, part, group};
            LaneSums sums{};
            for (int64_t n = 0; n < c.batch; ++n) c.add_plane(sums, planes.read(x, n));
            const Lanes mean = c.each_lane(
                group, [&](int64_t, int64_t lane) { return static_cast<float>(sum_of(sums, lane) / c.count()); });
            LaneSums squares{};
            for (int64_t n = 0; n < c.batch; ++n) plane_squares(squares, c, planes.read(x, n), mean);
            const Lanes scale = c.each_lane(group, [&](int64_t channel, int64_t lane) {
              const auto variance = static_cast<float>(sum_of(squares, lane) / c.count());
              const float rstd = 1 / std::sqrt(variance + c.eps);
              if (means != nullptr) means[channel] = mean[static_cast<size_t>(lane)];
              if (rstds != nullptr) rstds[channel] = rstd;
              if (variances != nullptr) variances[channel] = variance;
              return rstd * or_else(weight, channel, 1);
            });
            const Lanes shift = c.each_lane(group, [&](int64_t channel, int64_t) { return or_else(bias, channel, 0); });
            for (int64_t n = 0; n < c.batch; ++n) {
              const float* from = planes.read(x, n);
              planes.write(y, n, [&](float* to) { plane_affine(c, to, from, mean, scale, shift); });
            }
          });
        };
      }};
}

Kernel backward(const KernelCall& call) {
  const Norm c(call);
  return {
      c.scratch_bytes, [c, made = call.requested](const Memory& m) -> Task {
        const auto produced_or_null = [&](size_t k) { return made[k] ? m.out<float>(static_cast<int>(k)) : nullptr; };
        return [=, dy = c.input(m, 0), x = c.input(m, 1), means = m.in<float>(2), rstds = m.in<float>(3),
                weight = m.in<float>(4), dx = c.output(m, made[0]), scratch = m.scratch, dweight = produced_or_null(1),
                dbias = produced_or_null(2)] {
          c.for_each([=](int part, int64_t group) {
            const PlanesOf planes{c, scratch, part, group};
            const Lanes mean = c.each_lane(group, [&](int64_t channel, int64_t) { return means[channel]; });
            LaneSums sums{};
            LaneSums products{};
            for (int64_t n = 0; n < c.batch; ++n) {
              const float* slopes = planes.read(dy, n);
              c.add_plane(sums, slopes);
              plane_products(products, c, slopes, planes.read(x, n, 1), mean);
            }
            const auto number = [&](const auto& f) {
              return c.each_lane(group,
                                 [&](int64_t channel, int64_t lane) { return static_cast<float>(f(channel, lane)); });
            };
            if (dweight != nullptr) {
              number([&](int64_t channel, int64_t lane) {
                return dweight[channel] = static_cast<float>(sum_of(products, lane)) * rstds[channel];
              });
            }
            if (dbias != nullptr) {
              number([&](int64_t channel, int64_t lane) {
                return dbias[channel] = static_cast<float>(sum_of(sums, lane));
              });
            }
            if (!dx.wanted()) return;
            const Lanes level = number([&](int64_t, int64_t lane) { return sum_of(sums, lane) / c.count(); });
            const Lanes slope = number([&](int64_t channel, int64_t lane) {
              const double rstd = rstds[channel];
              return sum_of(products, lane) * rstd * rstd / c.count();
            });
            const Lanes scale =
                number([&](int64_t channel, int64_t) { return rstds[channel] * or_else(weight, channel, 1); });
            for (int64_t n = 0; n < c.batch; ++n) {
              const float* slopes = planes.read(dy, n);
              const float* values = planes.read(x, n, 1);
              planes.write(dx, n, [&](float* to) { plane_gradient(c, to, slopes, values, scale, level, mean, slope); });
            }
          });
        };
      }};
}

// ---- with the channels last ----

// In scratch, behind the sums: one array of f32 for each of `numbers` things that belong to channels.
struct RowsNorm : ChannelRows {
  float eps;
  int kinds;  // of sums
  int numbers;

  RowsNorm(const KernelCall& call, int kinds_of_sums, int numbers_of_channels)
      : ChannelRows(call.in(0), call.threads),
        eps(static_cast<float>(call.op.real("eps"))),
        kinds(kinds_of_sums),
        numbers(numbers_of_channels) {}

  int64_t bytes() const { return scratch_bytes(kinds) + numbers * channels * 4; }
  float* number(std::byte* scratch, int i) const {
    return reinterpret_cast<float*>(scratch + scratch_bytes(kinds)) + i * channels;
  }
  template <class F>
  void set(float* numbers_of, const F& f) const {
    for (int64_t channel = 0; channel < channels; ++channel) numbers_of[channel] = static_cast<float>(f(channel));
  }
  double mean_of(const std::byte* scratch, int kind, int64_t channel) const {
    return sums(scratch)[kind * channels + channel] / static_cast<double>(count);
  }
};

void keep(float* to, const float* from, int64_t count) {
  if (to != nullptr) std::copy_n(from, count, to);
}

Kernel forward_by_rows(const KernelCall& call) {
  const RowsNorm c(call, 1, 5);
  return {c.bytes(), [c, made = call.requested](const Memory& m) -> Task {
            const auto produced_or_null = [&](size_t k) {
              return made[k] ? m.out<float>(static_cast<int>(k)) : nullptr;
            };
            return [=, x = m.in<uint16_t>(0), weight = m.in<float>(1), bias = m.in<float>(2), y = m.out<uint16_t>(),
                    scratch = m.scratch, means = produced_or_null(1), rstds = produced_or_null(2),
                    variances = produced_or_null(3)] {
              const simd::ChannelLoops& loops = simd::functions().channels;
              float* mean = c.number(scratch, 0);
              float* variance = c.number(scratch, 1);
              float* rstd = c.number(scratch, 2);
              float* scale = c.number(scratch, 3);
              float* shift = c.number(scratch, 4);
              c.add_up(scratch, 1, [&](float* sums, int64_t row, int64_t rows) {
                loops.sum(sums, x + row * c.channels, rows, c.channels);
              });
              c.set(mean, [&](int64_t channel) { return c.mean_of(scratch, 0, channel); });
              c.add_up(scratch, 1, [&](float* sums, int64_t row, int64_t rows) {
                loops.sum_squares(sums, x + row * c.channels, mean, rows, c.channels);
              });
              c.set(variance, [&](int64_t channel) { return c.mean_of(scratch, 0, channel); });
              c.set(rstd, [&](int64_t channel) { return 1 / std::sqrt(variance[channel] + c.eps); });
              c.set(scale, [&](int64_t channel) { return rstd[channel] * or_else(weight, channel, 1); });
              c.set(shift, [&](int64_t channel) { return or_else(bias, channel, 0); });
              c.for_each_part([&](int, int64_t begin, int64_t end) {
                const int64_t at = begin * c.channels;
                loops.affine(y + at, x + at, mean, scale, shift, end - begin, c.channels);
              });
              keep(means, mean, c.channels);
              keep(rstds, rstd, c.channels);
              keep(variances, variance, c.channels);
            };
          }};
}

Kernel backward_by_rows(const KernelCall& call) {
  const RowsNorm c(call, 2, 3);
  return {c.bytes(), [c, made = call.requested](const Memory& m) -> Task {
            const auto produced_or_null = [&](size_t k) {
              return made[k] ? m.out<float>(static_cast<int>(k)) : nullptr;
            };
            return [=, dy = m.in<uint16_t>(0), x = m.in<uint16_t>(1), mean = m.in<float>(2), rstd = m.in<float>(3),
                    weight = m.in<float>(4), dx = made[0] ? m.out<uint16_t>() : nullptr, scratch = m.scratch,
                    dweight = produced_or_null(1), dbias = produced_or_null(2)] {
              const simd::ChannelLoops& loops = simd::functions().channels;
              c.add_up(scratch, 2, [&](float* sums, int64_t row, int64_t rows) {
                const int64_t at = row * c.channels;
                loops.sum_slopes(sums, sums + c.channels, dy + at, x + at, mean, rows, c.channels);
              });
              const double* sums = c.sums(scratch);
              const double* products = sums + c.channels;
              if (dweight != nullptr) {
                c.set(dweight, [&](int64_t channel) { return static_cast<float>(products[channel]) * rstd[channel]; });
              }
              if (dbias != nullptr) c.set(dbias, [&](int64_t channel) { return sums[channel]; });
              if (dx == nullptr) return;
              float* scale = c.number(scratch, 0);
              float* level = c.number(scratch, 1);
              float* slope = c.number(scratch, 2);
              c.set(scale, [&](int64_t channel) { return rstd[channel] * or_else(weight, channel, 1); });
              c.set(level, [&](int64_t channel) { return c.mean_of(scratch, 0, channel); });
              c.set(slope, [&](int64_t channel) {
                const double inverse = rstd[channel];
                return c.mean_of(scratch, 1, channel) * inverse * inverse;
              });
              c.for_each_part([&](int, int64_t begin, int64_t end) {
                const int64_t at = begin * c.channels;
                loops.gradient(dx + at, dy + at, x + at, mean, scale, level, slope, end - begin, c.channels);
              });
            };
          }};
}

Kernel forward_anyhow(const KernelCall& call) { return (call.in(0).channels_last ? forward_by_rows : forward)(call); }
Kernel backward_anyhow(const KernelCall& call) {
  return (call.in(0).channels_last ? backward_by_rows : backward)(call);
}

// ---- the running statistics, and with them ----

Kernel update(const KernelCall& call) {
  for (int i = 0; i < 4; ++i) call.require_f32(i);
  const auto momentum = static_cast<float>(call.op.real("momentum"));
  const auto count = static_cast<float>(call.op.integer("count"));
  return plain([=, channels = call.out().elements()](const Memory& m) -> Task {
    return [=, mean = m.out<float>(0), variance = m.out<float>(1), new_mean = m.in<float>(2),
            new_variance = m.in<float>(3)] {
      const float unbiased = count / (count - 1);
      for (int64_t i = 0; i < channels; ++i) {
        mean[i] = (1 - momentum) * mean[i] + momentum * new_mean[i];
        variance[i] = (1 - momentum) * variance[i] + momentum * new_variance[i] * unbiased;
      }
    };
  });
}

// What running statistics make of the weights.
Lanes inference_scale(const Norm& c, int64_t group, const float* weight, const float* variance) {
  return c.each_lane(group, [&](int64_t channel, int64_t) {
    return or_else(weight, channel, 1) / std::sqrt(variance[channel] + c.eps);
  });
}

Kernel inference(const KernelCall& call) {
  const Norm c(call);
  return {c.scratch_bytes, [c](const Memory& m) -> Task {
            return [=, x = c.input(m, 0), mean = m.in<float>(1), variance = m.in<float>(2), weight = m.in<float>(3),
                    bias = m.in<float>(4), y = c.output(m), scratch = m.scratch] {
              c.for_each([=](int part, int64_t group) {
                const PlanesOf planes{c, scratch, part, group};
                const Lanes scale = inference_scale(c, group, weight, variance);
                const Lanes centre = c.each_lane(group, [&](int64_t channel, int64_t) { return mean[channel]; });
                const Lanes shift =
                    c.each_lane(group, [&](int64_t channel, int64_t) { return or_else(bias, channel, 0); });
                for (int64_t n = 0; n < c.batch; ++n) {
                  const float* from = planes.read(x, n);
                  planes.write(y, n, [&](float* to) { plane_affine(c, to, from, centre, scale, shift); });
                }
              });
            };
          }};
}

Kernel inference_backward(const KernelCall& call) {
  const Norm c(call);
  return {c.scratch_bytes, [c](const Memory& m) -> Task {
            return [=, dy = c.input(m, 0), variance = m.in<float>(1), weight = m.in<float>(2), dx = c.output(m),
                    scratch = m.scratch] {
              c.for_each([=](int part, int64_t group) {
                const PlanesOf planes{c, scratch, part, group};
                const Lanes scale = inference_scale(c, group, weight, variance);
                for (int64_t n = 0; n < c.batch; ++n) {
                  const float* from = planes.read(dy, n);
                  planes.write(dx, n, [&](float* to) { plane_affine(c, to, from, {}, scale, {}); });
                }
              });
            };
          }};
}

Kernel inference_backward_affine(const KernelCall& call) {
  const Norm c(call);
  return {c.scratch_bytes, [c, made = call.requested](const Memory& m) -> Task {
            return [=, dy = c.input(m, 0), x = c.input(m, 1), mean = m.in<float>(2), variance = m.in<float>(3),
                    scratch = m.scratch, dweight = made[0] ? m.out<float>(0) : nullptr,
                    dbias = made[1] ? m.out<float>(1) : nullptr] {
              c.for_each([=](int part, int64_t group) {
                const PlanesOf planes{c, scratch, part, group};
                const Lanes centre = c.each_lane(group, [&](int64_t channel, int64_t) { return mean[channel]; });
                LaneSums sums{};
                LaneSums products{};
                for (int64_t n = 0; n < c.batch; ++n) {
                  const float* slopes = planes.read(dy, n);
                  c.add_plane(sums, slopes);
                  plane_products(products, c, slopes, planes.read(x, n, 1), centre);
                }
                for (int64_t lane = 0; lane < c.lanes; ++lane) {
                  const int64_t channel = group * c.lanes + lane;
                  const float rstd = 1 / std::sqrt(variance[channel] + c.eps);
                  if (dweight != nullptr) dweight[channel] = static_cast<float>(sum_of(products, lane)) * rstd;
                  if (dbias != nullptr) dbias[channel] = static_cast<float>(sum_of(sums, lane));
                }
              });
            };
          }};
}

// The first operands, and the result that is like them; weights and statistics are f32.
template <int kImages>
bool low_precision_images(const KernelCall& call) {
  return low_precision_only_in(call, kImages == 1 ? std::vector{0} : std::vector{0, 1}, {0});
}

}  // namespace

void register_batch_norm_cpu(KernelTable& table) {
  using Rule = Blocking::Rule;
  const Blocking one{.rule = Rule::together, .inputs = {0}, .outputs = {0}};
  const Blocking two{.rule = Rule::together, .inputs = {0, 1}, .outputs = {0}};
  table.add("batch_norm", {forward_anyhow, contiguous_only, one, nullptr, low_precision_images<1>});
  table.add("batch_norm_backward", {backward_anyhow, contiguous_only, two, nullptr, low_precision_images<2>});
  table.add("batch_norm_update", {update});
  table.add("batch_norm_inference", {inference, contiguous_only, one, nullptr, low_precision_images<1>});
  table.add("batch_norm_inference_backward",
            {inference_backward, contiguous_only, one, nullptr, low_precision_images<1>});
  table.add("batch_norm_inference_backward_affine", {inference_backward_affine,
                                                     contiguous_only,
                                                     {.rule = Rule::together, .inputs = {0, 1}},
                                                     nullptr,
                                                     [](const KernelCall& call) {
                                                       return low_precision_only_in(call, {0, 1}, {});
                                                     }});
}

}  // namespace plimsoll::kernels
