#include <algorithm>

#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/random.h"

namespace plimsoll::program {
namespace {

template <class T>
void drop(Run<T>& run) {
  const double rate = run.call.real("rate");
  const uint64_t threshold = drop_threshold(rate);
  const auto seed = static_cast<uint64_t>(run.ints(1)[0]);
  const auto stream = static_cast<uint64_t>(run.call.integer("stream"));
  const std::vector<int64_t>& place = run.ints(1);
  const auto before = place.size() > 1 ? place[1] * (run.in(0).elements() / std::max<int64_t>(1, run.shape(0)[0])) : 0;
  const auto first = static_cast<uint64_t>(run.call.integer("offset") + before);
  const auto scale = static_cast<T>(1 / (1 - rate));
  for (size_t i = 0; i < run.reals(0).size(); ++i) {
    if (random_bits(seed, stream, first + i) >= threshold) run.out().reals[i] = run.reals(0)[i] * scale;
  }
}

}  // namespace

void register_dropout_reference(OpTable& table) {
  table.reference("dropout", [](auto& run) { drop(run); });
}

}  // namespace plimsoll::program
