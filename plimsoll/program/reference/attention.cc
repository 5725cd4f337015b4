#include <cmath>
#include <numeric>
#include <optional>

#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/random.h"
#include "plimsoll/program/reference/exp_sum.h"
#include "plimsoll/program/reference/index.h"

namespace plimsoll::program {
namespace {

template <class T>
constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();

// The draws of dropout, as random.h names them.
struct Dropout {
  Dropout(const OpCall& call, int64_t seed_given)
      : seed(static_cast<uint64_t>(seed_given)),
        stream(static_cast<uint64_t>(call.integer("stream"))),
        offset(static_cast<uint64_t>(call.integer("offset"))),
        rate(call.real("rate")) {}

  double factor(size_t place) const {
    return random_bits(seed, stream, offset + place) < drop_threshold(rate) ? 0 : 1 / (1 - rate);
  }

  uint64_t seed;
  uint64_t stream;
  uint64_t offset;
  double rate;
};

template <class T>
struct Attention {
  const Array<T>& q;
  const Array<T>& k;
  const Array<T>& v;
  const Array<T>* mask;  // nullptr: none
  bool causal;
  T scale;
  Shape scores;  // [batch, heads, queries, keys]
  std::optional<Dropout> dropout;

  int64_t keys() const { return scores[3]; }
  int64_t dim() const { return q.shape[3]; }
  int64_t width() const { return v.shape[3]; }
  Shape rows() const { return Shape(scores.dims().first(3)); }

  // The score of key j for query `row` (batch, head, query); minus infinity where the key takes no part.
  T score(const Index& row, int64_t j) const {
    if (causal && j > row[2]) return kMinusInfinity<T>;
    T sum = 0;
    for (int64_t d = 0; d < dim(); ++d) sum += q.reals[at(q, row, row[2], d)] * k.reals[at(k, row, j, d)];
    sum *= scale;
    if (mask == nullptr) return sum;
    const size_t place = mask_place(row, j);
    if (mask->dtype == DType::boolean) return mask->ints[place] != 0 ? sum : kMinusInfinity<T>;
    return sum + mask->reals[place];
  }

  size_t mask_place(const Index& row, int64_t j) const {
    return place_of(mask->shape, broadcast_index(mask->shape, 4, Index{row[0], row[1], row[2], j}));
  }

  // What dropout multiplies the weight of key j for query `row` with.
  T kept(const Index& row, int64_t j) const {
    return dropout ? static_cast<T>(dropout->factor(place_of(scores, Index{row[0], row[1], row[2], j}))) : 1;
  }

  // Where element d of line i of an operand lies, in the batch and head of `row`.
  static size_t at(const Array<T>& array, const Index& row, int64_t i, int64_t d) {
    return place_of(array.shape, Index{row[0], row[1], i, d});
  }
};

// Operands q, k, v stand from `first` on; the seed of dropout, where `drops`, and the mask, if any, from `tail` on.
template <class T>
Attention<T> attention_of(const Run<T>& run, int first, int tail, bool drops) {
  const Shape& q = run.shape(first);
  const double given = run.call.real("scale");
  const double scale = given != 0 ? given : 1 / std::sqrt(static_cast<double>(q[3]));
  const int mask = drops ? tail + 1 : tail;
  return {run.in(first),
          run.in(first + 1),
          run.in(first + 2),
          mask < run.arity() ? &run.in(mask) : nullptr,
          run.call.flag("causal"),
          static_cast<T>(scale),
          Shape{q[0], q[1], q[2], run.shape(first + 1)[2]},
          drops ? std::optional(Dropout(run.call, run.ints(tail)[0])) : std::nullopt};
}

template <class T>
void forward(Run<T>& run, bool drops) {
  const Attention<T> all = attention_of(run, 0, 3, drops);
  std::vector<size_t> every_place(static_cast<size_t>(all.keys()));
  std::iota(every_place.begin(), every_place.end(), 0);
  for_each_index(all.rows(), [&](const Index& row, size_t place) {
    std::vector<T> scores;
    for (int64_t j = 0; j < all.keys(); ++j) scores.push_back(all.score(row, j));
    const T lse = log_sum_exp(scores, every_place);
    if (run.wants(1)) run.out(1).reals[place] = lse;
    if (lse == kMinusInfinity<T>) return;  // sees no key
    for (int64_t j = 0; j < all.keys(); ++j) {
      const T weight = std::exp(scores[static_cast<size_t>(j)] - lse) * all.kept(row, j);
      for (int64_t d = 0; d < all.width(); ++d) {
        run.out().reals[all.at(run.out(), row, row[2], d)] += weight * all.v.reals[all.at(all.v, row, j, d)];
      }
    }
  });
}

// With P the weights and S the scores: dV = P' dY, dP = dY V', dS = P * (dP - sum(dY * Y)), dQ = scale dS K,
// dK = scale dS' Q.
template <class T>
void backward(Run<T>& run, bool drops) {
  const Attention<T> all = attention_of(run, 1, 6, drops);
  const auto& dy = run.in(0);
  const auto& y = run.in(4);
  const auto& lse = run.reals(5);
  const bool adds_mask = run.wants(3) && all.mask != nullptr && is_floating(all.mask->dtype);
  for_each_index(all.rows(), [&](const Index& row, size_t place) {
    const int64_t i = row[2];
    T through_sum = 0;
    for (int64_t d = 0; d < all.width(); ++d) {
      through_sum += dy.reals[all.at(dy, row, i, d)] * y.reals[all.at(y, row, i, d)];
    }
    for (int64_t j = 0; j < all.keys() && lse[place] != kMinusInfinity<T>; ++j) {
      const T weight = std::exp(all.score(row, j) - lse[place]);
      const T kept = all.kept(row, j);
      T dweight = 0;
      for (int64_t d = 0; d < all.width(); ++d) {
        const T slope = kept * dy.reals[all.at(dy, row, i, d)];
        dweight += slope * all.v.reals[all.at(all.v, row, j, d)];
        run.out(2).reals[all.at(all.v, row, j, d)] += weight * slope;
      }
      const T dscore = weight * (dweight - through_sum);
      if (adds_mask) run.out(3).reals[all.mask_place(row, j)] += dscore;
      for (int64_t d = 0; d < all.dim(); ++d) {
        const size_t in_q = all.at(all.q, row, i, d);
        const size_t in_k = all.at(all.k, row, j, d);
        run.out(0).reals[in_q] += all.scale * dscore * all.k.reals[in_k];
        run.out(1).reals[in_k] += all.scale * dscore * all.q.reals[in_q];
      }
    }
  });
}

}  // namespace

void register_attention_reference(OpTable& table) {
  for (const bool drops : {false, true}) {
    const std::string name = drops ? "attention_dropout" : "attention";
    table.reference(name, [drops](auto& run) { forward(run, drops); });
    table.reference(name + "_backward", [drops](auto& run) { backward(run, drops); });
  }
}

}  // namespace plimsoll::program
