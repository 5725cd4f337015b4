#include "plimsoll/program/passes/optimize.h"

#include <algorithm>

#include "plimsoll/program/passes/common_subexpressions.h"
#include "plimsoll/program/passes/dead_code.h"
#include "plimsoll/program/passes/fold_constants.h"
#include "plimsoll/program/passes/fold_views.h"
#include "plimsoll/program/passes/fuse_activations.h"
#include "plimsoll/program/passes/fuse_attention.h"
#include "plimsoll/program/passes/fuse_bias.h"
#include "plimsoll/program/passes/fuse_epilogues.h"
#include "plimsoll/program/passes/fuse_norms.h"

namespace plimsoll::program {
namespace {

bool same_op(const Op& a, const Op& b) {
  return a.def == b.def && a.inputs == b.inputs && a.outputs == b.outputs && a.attributes == b.attributes;
}

bool same(const Program& a, const Program& b) {
  return a.values == b.values && std::equal(a.ops.begin(), a.ops.end(), b.ops.begin(), b.ops.end(), same_op);
}

using Pass = Program (*)(Program);

// Every pass drops ops or turns them into simpler ones, so this ends.
Program to_fixpoint(Program program, std::initializer_list<Pass> passes) {
  for (;;) {
    Program next = program;
    for (const Pass pass : passes) next = pass(std::move(next));
    if (same(program, next)) return program;
    program = std::move(next);
  }
}

}  // namespace

Program simplify(Program program) {
  return to_fixpoint(std::move(program),
                     {eliminate_dead_code, fold_views, fold_constants, eliminate_common_subexpressions,
                      fuse_activations, fuse_norms, fuse_differentiable_attention, fuse_bias});
}

Program optimize(Program step) { return to_fixpoint(std::move(step), {simplify, fuse_attention, fuse_epilogues}); }

}  // namespace plimsoll::program
