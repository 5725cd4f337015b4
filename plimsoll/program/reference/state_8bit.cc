#include <algorithm>
#include <cmath>
#include <type_traits>

#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/ops/state_code.h"

namespace plimsoll::program {
namespace {

bool is_signed(const OpCall& call, int i) { return call.def.input_name(i) != "square"; }

// Operands i and i + 1 as numbers.
template <class T>
Array<T> decoded(const Run<T>& run, int i) {
  Array<T> state = run.in(0);
  for (size_t e = 0; e < state.reals.size(); ++e) {
    const auto code = static_cast<uint8_t>(run.ints(i)[e]);
    const float share = is_signed(run.call, i) ? signed_share(code) : unsigned_share(code);
    state.reals[e] = static_cast<T>(share) * run.reals(i + 1)[e / kStateBlock];
  }
  return state;
}

// Numbers as results i - 1 and i, which are the new operands i and i + 1.
template <class T>
void encode(const Run<T>& run, int i, const std::vector<T>& state, uint32_t chances) {
  std::vector<T>& scales = run.out(i).reals;
  for (size_t e = 0; e < state.size(); ++e) {
    scales[e / kStateBlock] = std::max(scales[e / kStateBlock], std::abs(state[e]));
  }
  for (size_t e = 0; e < state.size(); ++e) {
    const T scale = scales[e / kStateBlock];
    const auto share = static_cast<float>(scale > 0 ? state[e] / scale : 0);
    const uint32_t bits = scrambled(chances + static_cast<uint32_t>(e));
    run.out(i - 1).ints[e] =
        is_signed(run.call, i) ? signed_code(share, signed_chance(bits)) : unsigned_code(share, unsigned_chance(bits));
  }
}

template <class T>
void evaluate_plain(const OpDef& plain, Run<T>& run) {
  if constexpr (std::is_same_v<T, double>) {
    plain.reference_f64(run);
  } else {
    plain.reference_f32(run);
  }
}

// An update by gradients of no size leaves everything as it was.
template <class T>
bool skips(Run<T>& run, int scale) {
  if (scale == run.arity() || !std::isnan(run.reals(scale)[0])) return false;
  run.out().reals = run.reals(0);
  for (int i = 2; i < scale - 2; i += 2) {
    run.out(i - 1).ints = run.ints(i);
    run.out(i).reals = run.reals(i + 1);
  }
  return true;
}

// The plain op from the numbers that the codes stand for, and its state as codes again.
template <class T>
void update(Run<T>& run, const OpDef& plain, int states, bool counts) {
  const int step = 2 + 2 * states;
  if (skips(run, step + 2)) return;
  std::vector<Array<T>> state;
  for (int k = 0; k < states; ++k) state.push_back(decoded(run, 2 + 2 * k));
  std::vector<const Array<T>*> inputs = {&run.in(0), &run.in(1)};
  for (const Array<T>& one : state) inputs.push_back(&one);
  for (int i = counts ? step : step + 1; i < run.arity(); ++i) inputs.push_back(&run.in(i));
  std::vector<Array<T>> outputs(static_cast<size_t>(1 + states), run.in(0));
  const OpCall call{plain, run.call.inputs, run.call.attributes};
  Run<T> inner{call, inputs, outputs, std::vector<bool>(outputs.size(), true)};
  evaluate_plain(plain, inner);
  run.out().reals = outputs[0].reals;
  const uint32_t chances = first_chance(run.ints(step)[0]);
  for (int k = 0; k < states; ++k) encode(run, 2 + 2 * k, outputs[static_cast<size_t>(k + 1)].reals, chances);
}

}  // namespace

void register_state_8bit_reference(OpTable& table) {
  table.reference("momentum_8bit", [plain = &table.get("momentum")](auto& run) { update(run, *plain, 1, false); });
  table.reference("adam_8bit", [plain = &table.get("adam")](auto& run) { update(run, *plain, 2, true); });
  table.reference("adamw_8bit", [plain = &table.get("adamw")](auto& run) { update(run, *plain, 2, true); });
}

}  // namespace plimsoll::program
