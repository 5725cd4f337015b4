#include <cmath>

#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/reference/index.h"

namespace plimsoll::program {
namespace {

// For each element of x which statistics and which parameters it is normalised with.
struct Members {
  size_t statistics;  // how many there are
  std::vector<size_t> statistic = {};
  std::vector<size_t> parameter = {};

  void add(int64_t of_statistic, int64_t of_parameter) {
    statistic.push_back(static_cast<size_t>(of_statistic));
    parameter.push_back(static_cast<size_t>(of_parameter));
  }
};

Members layer_members(const OpCall& call, const Shape& x) {
  const auto axis = static_cast<size_t>(call.axis("axis"));
  const int64_t inner = Shape(x.dims().subspan(axis)).elements();
  Members members{static_cast<size_t>(Shape(x.dims().first(axis)).elements())};
  for (int64_t i = 0; i < x.elements(); ++i) members.add(i / inner, i % inner);
  return members;
}

Members group_members(const OpCall& call, const Shape& x) {
  const int64_t groups = call.integer("groups");
  Members members{static_cast<size_t>(x[0] * groups)};
  for_each_index(
      x, [&](const Index& index, size_t) { members.add(index[0] * groups + index[1] * groups / x[1], index[1]); });
  return members;
}

Members batch_members(const OpCall& /*call*/, const Shape& x) {
  Members members{static_cast<size_t>(x[1])};
  for_each_index(x, [&](const Index& index, size_t) { members.add(index[1], index[1]); });
  return members;
}

// For each statistic the mean of value(i) over its elements i.
template <class T, class F>
std::vector<T> means(const Members& of, F value) {
  std::vector<T> sums(of.statistics, 0);
  for (size_t i = 0; i < of.statistic.size(); ++i) sums[of.statistic[i]] += value(i);
  for (T& sum : sums) sum /= static_cast<T>(of.statistic.size()) / static_cast<T>(of.statistics);
  return sums;
}

// weight or bias, or what stands for it when it is left out.
template <class T>
T parameter(const Run<T>& run, int operand, size_t at, T otherwise) {
  return operand < run.arity() ? run.reals(operand)[at] : otherwise;
}

template <class T>
T inverse_deviation(const Run<T>& run, T variance) {
  return 1 / std::sqrt(variance + static_cast<T>(run.call.real("eps")));
}

template <class T>
void save(Run<T>& run, int output, const std::vector<T>& values) {
  if (run.wants(output)) run.out(output).reals = values;
}

template <class T>
void normalise(Run<T>& run, const Members& of, bool centred) {
  const std::vector<T>& x = run.reals(0);
  std::vector<T> mean(of.statistics, 0);
  if (centred) mean = means<T>(of, [&](size_t i) { return x[i]; });
  const auto from_mean = [&](size_t i) { return x[i] - mean[of.statistic[i]]; };
  const std::vector<T> variance = means<T>(of, [&](size_t i) { return from_mean(i) * from_mean(i); });
  std::vector<T> rstd;
  for (const T v : variance) rstd.push_back(inverse_deviation(run, v));
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t p = of.parameter[i];
    run.out().reals[i] = from_mean(i) * rstd[of.statistic[i]] * parameter<T>(run, 1, p, 1) + parameter<T>(run, 2, p, 0);
  }
  if (centred) save(run, 1, mean);
  save(run, centred ? 2 : 1, rstd);
  if (run.made.size() > 3) save(run, 3, variance);  // batch_norm
}

// With n = (x - mean) * rstd and g = dy * weight: dx = rstd * (g - mean(g) - n * mean(g * n)); without a mean the
// second term is not there. dweight = sum(dy * n), dbias = sum(dy).
template <class T>
void differentiate(Run<T>& run, const Members& of, bool centred) {
  const std::vector<T>& dy = run.reals(0);
  const std::vector<T>& x = run.reals(1);
  const std::vector<T>& rstd = run.reals(centred ? 3 : 2);
  const auto normal = [&](size_t i) {
    const size_t s = of.statistic[i];
    return (centred ? x[i] - run.reals(2)[s] : x[i]) * rstd[s];
  };
  const auto weighted = [&](size_t i) { return dy[i] * parameter<T>(run, centred ? 4 : 3, of.parameter[i], 1); };
  std::vector<T> level(of.statistics, 0);
  if (centred) level = means<T>(of, weighted);
  const std::vector<T> slope = means<T>(of, [&](size_t i) { return weighted(i) * normal(i); });
  for (size_t i = 0; i < dy.size(); ++i) {
    const size_t s = of.statistic[i];
    run.out().reals[i] = rstd[s] * (weighted(i) - level[s] - normal(i) * slope[s]);
    if (run.wants(1)) run.out(1).reals[of.parameter[i]] += dy[i] * normal(i);
    if (centred && run.wants(2)) run.out(2).reals[of.parameter[i]] += dy[i];
  }
}

using MembersRule = Members (*)(const OpCall&, const Shape&);

void register_pair(OpTable& table, const std::string& op, MembersRule members, bool centred) {
  table.reference(op, [=](auto& run) { normalise(run, members(run.call, run.shape(0)), centred); });
  table.reference(op + "_backward", [=](auto& run) { differentiate(run, members(run.call, run.shape(0)), centred); });
}

template <class T>
void update(Run<T>& run) {
  const auto momentum = static_cast<T>(run.call.real("momentum"));
  const auto count = static_cast<T>(run.call.integer("count"));
  const T unbiased[] = {1, count / (count - 1)};
  for (int k = 0; k < 2; ++k) {
    for (size_t i = 0; i < run.reals(k).size(); ++i) {
      run.out(k).reals[i] = (1 - momentum) * run.reals(k)[i] + momentum * run.reals(k + 2)[i] * unbiased[k];
    }
  }
}

// Calls visit(place, channel) for each element of an array of this shape.
template <class F>
void for_each_channel(const Shape& shape, F visit) {
  for_each_index(shape, [&](const Index& index, size_t place) { visit(place, static_cast<size_t>(index[1])); });
}

void register_inference(OpTable& table) {
  table.reference("batch_norm_inference", [](auto& run) {
    using T = typename std::remove_reference_t<decltype(run)>::Real;
    for_each_channel(run.shape(0), [&](size_t i, size_t c) {
      const T normal = (run.reals(0)[i] - run.reals(1)[c]) * inverse_deviation(run, run.reals(2)[c]);
      run.out().reals[i] = normal * parameter<T>(run, 3, c, 1) + parameter<T>(run, 4, c, 0);
    });
  });
  table.reference("batch_norm_inference_backward", [](auto& run) {
    using T = typename std::remove_reference_t<decltype(run)>::Real;
    for_each_channel(run.shape(0), [&](size_t i, size_t c) {
      run.out().reals[i] = run.reals(0)[i] * inverse_deviation(run, run.reals(1)[c]) * parameter<T>(run, 2, c, 1);
    });
  });
  table.reference("batch_norm_inference_backward_affine", [](auto& run) {
    for_each_channel(run.shape(0), [&](size_t i, size_t c) {
      const auto dy = run.reals(0)[i];
      run.out().reals[c] += dy * (run.reals(1)[i] - run.reals(2)[c]) * inverse_deviation(run, run.reals(3)[c]);
      if (run.wants(1)) run.out(1).reals[c] += dy;
    });
  });
}

}  // namespace

void register_norm_reference(OpTable& table) {
  register_pair(table, "layer_norm", layer_members, true);
  register_pair(table, "rms_norm", layer_members, false);
  register_pair(table, "group_norm", group_members, true);
  register_pair(table, "batch_norm", batch_members, true);
  table.reference("batch_norm_update", [](auto& run) { update(run); });
  register_inference(table);
}

}  // namespace plimsoll::program
