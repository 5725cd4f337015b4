// Normalisation of each sample's channels in groups.
#include <cmath>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/cpu/support/sums.h"
#include "plimsoll/kernels/kernel.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

// x as [samples, groups, channels of a group, plane].
struct GroupNorm {
  int64_t samples, groups, channels, plane;
  double eps;
  int threads;

  explicit GroupNorm(const KernelCall& call)
      : samples(call.in(0).shape[0]),
        groups(call.op.integer("groups")),
        channels(call.in(0).shape[1] / groups),
        plane(Shape(call.in(0).shape.dims().subspan(2)).elements()),
        eps(call.op.real("eps")),
        threads(call.threads) {
    for (int i = 0; i < call.arity(); ++i) call.require_f32(i);
  }

  int64_t count() const { return samples * groups; }
  int64_t size() const { return channels * plane; }  // of a group
  int64_t all_channels() const { return groups * channels; }
  int64_t grain() const { return kGrain / (size() + 1) + 1; }
  int64_t first_channel(int64_t group) const { return group % groups * channels; }
};

struct Statistics {
  double mean, rstd;
};

Statistics statistics_of(const GroupNorm& norm, const float* x) {
  double sum = 0;
  for (int64_t i = 0; i < norm.size(); ++i) sum += static_cast<double>(x[i]);
  const double mean = sum / static_cast<double>(norm.size());
  double squares = 0;
  for (int64_t i = 0; i < norm.size(); ++i) {
    squares += (static_cast<double>(x[i]) - mean) * (static_cast<double>(x[i]) - mean);
  }
  return {mean, 1 / std::sqrt(squares / static_cast<double>(norm.size()) + norm.eps)};
}

// y may lie where x does.
void normalise(const GroupNorm& norm, Statistics s, const float* x, const float* weight, const float* bias, float* y) {
  for (int64_t c = 0; c < norm.channels; ++c) {
    const auto scale = static_cast<float>(s.rstd) * (weight == nullptr ? 1 : weight[c]);
    const auto mean = static_cast<float>(s.mean);
    const float shift = bias == nullptr ? 0 : bias[c];
    for (int64_t i = c * norm.plane; i < (c + 1) * norm.plane; ++i) y[i] = (x[i] - mean) * scale + shift;
  }
}

Kernel forward(const KernelCall& call) {
  const GroupNorm norm(call);
  return plain([=, wants_mean = call.produces(1), wants_rstd = call.produces(2)](const Memory& m) -> Task {
    return [=, x = m.in<float>(0), weight = m.in<float>(1), bias = m.in<float>(2), y = m.out<float>(),
            mean = wants_mean ? m.out<float>(1) : nullptr, rstd = wants_rstd ? m.out<float>(2) : nullptr] {
      parallel(norm.threads, norm.count(), norm.grain(), [=](int, int64_t begin, int64_t end) {
        for (int64_t group = begin; group < end; ++group) {
          const int64_t at = group * norm.size();
          const int64_t channel = norm.first_channel(group);
          const Statistics s = statistics_of(norm, x + at);
          if (mean != nullptr) mean[group] = static_cast<float>(s.mean);
          if (rstd != nullptr) rstd[group] = static_cast<float>(s.rstd);
          normalise(norm, s, x + at, weight == nullptr ? nullptr : weight + channel,
                    bias == nullptr ? nullptr : bias + channel, y + at);
        }
      });
    };
  });
}

// One group: its first elements, and the sums of its channels.
struct GroupGradient {
  const float* dy;
  const float* x;
  const float* weight;  // nullptr: 1
  float* dx;
  float* dweight;
  float* dbias;
};

// With n = (x - mean) * rstd and g = dy * weight: dx = rstd * (g - mean(g) - n * mean(g * n)). dx may lie where x or dy
// do, so the sums come first.
void group_gradient(const GroupNorm& norm, Statistics s, const GroupGradient& r) {
  double level = 0;
  double slope = 0;
  const auto normal = [&](int64_t i) { return (static_cast<double>(r.x[i]) - s.mean) * s.rstd; };
  const auto weighted = [&](int64_t c, int64_t i) {
    return static_cast<double>(r.weight == nullptr ? r.dy[i] : r.dy[i] * r.weight[c]);
  };
  for (int64_t c = 0; c < norm.channels; ++c) {
    double dweight = 0;
    double dbias = 0;
    for (int64_t i = c * norm.plane; i < (c + 1) * norm.plane; ++i) {
      dweight += static_cast<double>(r.dy[i]) * normal(i);
      dbias += static_cast<double>(r.dy[i]);
    }
    const double weight = r.weight == nullptr ? 1 : static_cast<double>(r.weight[c]);
    level += dbias * weight;
    slope += dweight * weight;
    r.dweight[c] += static_cast<float>(dweight);
    r.dbias[c] += static_cast<float>(dbias);
  }
  level /= static_cast<double>(norm.size());
  slope /= static_cast<double>(norm.size());
  for (int64_t c = 0; c < norm.channels; ++c) {
    for (int64_t i = c * norm.plane; i < (c + 1) * norm.plane; ++i) {
      r.dx[i] = static_cast<float>(s.rstd * (weighted(c, i) - level - normal(i) * slope));
    }
  }
}

// Each part sums what its groups add to the weights' gradients; the parts are added in their order.
Kernel backward(const KernelCall& call) {
  const GroupNorm norm(call);
  const int64_t width = norm.all_channels();
  const auto bind = [=, wants_weight = call.produces(1), wants_bias = call.produces(2)](const Memory& m) -> Task {
    return [=, dy = m.in<float>(0), x = m.in<float>(1), mean = m.in<float>(2), rstd = m.in<float>(3),
            weight = m.in<float>(4), dx = m.out<float>(), dweight = wants_weight ? m.out<float>(1) : nullptr,
            dbias = wants_bias ? m.out<float>(2) : nullptr, partial = m.scratch_at<float>(0)] {
      float* bias_partial = partial + kSumParts * width;
      parallel_sums(norm.threads, norm.count(), norm.grain(), [=](int part, int, int64_t begin, int64_t end) {
        float* weight_sum = partial + part * width;
        float* bias_sum = bias_partial + part * width;
        for (int64_t i = 0; i < width; ++i) weight_sum[i] = bias_sum[i] = 0;
        for (int64_t group = begin; group < end; ++group) {
          const int64_t at = group * norm.size();
          const int64_t channel = norm.first_channel(group);
          group_gradient(norm, {mean[group], rstd[group]},
                         {dy + at, x + at, weight == nullptr ? nullptr : weight + channel, dx + at,
                          weight_sum + channel, bias_sum + channel});
        }
      });
      const int parts = sum_parts(norm.count(), norm.grain());
      if (dweight != nullptr) add_partials(dweight, partial, parts, width);
      if (dbias != nullptr) add_partials(dbias, bias_partial, parts, width);
    };
  };
  return {align_up(2 * kSumParts * width * 4, kAlignment), bind};
}

}  // namespace

void register_group_norm_cpu(KernelTable& table) {
  table.add("group_norm", {forward, contiguous_only, {}, [](const KernelCall& call) {
                             return by_rows(call, {0}, {0, 1, 2});
                           }});
  table.add("group_norm_backward", {backward, contiguous_only, {}, [](const KernelCall& call) {
                                      return by_rows(call, {0, 1, 2, 3}, {0}, {1, 2});
                                    }});
}

}  // namespace plimsoll::kernels
