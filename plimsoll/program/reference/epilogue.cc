#include "plimsoll/program/ops/epilogue.h"

#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/reference/index.h"

namespace plimsoll::program {
namespace {

void run_product(Run<double>& product) { product.call.def.reference_f64(product); }
void run_product(Run<float>& product) { product.call.def.reference_f32(product); }

template <class T>
void add_residual(Run<T>& run) {
  const Array<T>& residual = *run.inputs.back();
  auto& y = run.out();
  for_each_index(y.shape, [&](const Index& index, size_t place) {
    y.reals[place] += residual.reals[place_of(residual.shape, broadcast_index(residual.shape, y.shape.rank(), index))];
  });
}

template <class T>
void cut_at_zero(Run<T>& run) {
  std::vector<T>& y = run.out().reals;
  for (size_t i = 0; i < y.size(); ++i) {
    if (y[i] <= 0) y[i] = 0;
    if (run.wants(1) && y[i] > 0) run.out(1).ints[i / 8] |= 1 << (i % 8);
  }
}

template <class T>
void evaluate_epilogue(Run<T>& run) {
  const OpCall call = product_call(run.call);
  Run<T> product{call, run.inputs.first(call.inputs.size()), run.outputs.first(1), {true}};
  run_product(product);
  if (run.call.flag("residual")) add_residual(run);
  if (run.call.flag("relu")) cut_at_zero(run);
}

}  // namespace

void register_epilogue_reference(OpTable& table) {
  for (const char* op : {"conv_epilogue", "linear_epilogue", "matmul_epilogue"}) {
    table.reference(op, [](auto& run) { evaluate_epilogue(run); });
  }
}

}  // namespace plimsoll::program
