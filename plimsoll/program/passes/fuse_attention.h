// Attention that exporters take apart, put together again.
#pragma once

#include "plimsoll/program/passes/facts.h"
#include "plimsoll/program/program.h"

namespace plimsoll::program {

// softmax(q k' * scale + mask) v over [batch, heads, .., ..] becomes `attention`, which never holds the scores. The
// scale may stand at q, at k or at the scores; the mask is added, or chooses minus infinity (`where`). Equal to
// rounding; a query that sees no key gives zeros, where the parts gave no number or chose zeros in its place.
//
// With fewer keys than v is wide the scores are smaller than the result, and are left as they are, unless what is no
// number in them is replaced; before sizes are bound attention is always put together.
Program fuse_attention(Program program);

// The same but for masks that depend on parameters (biases of relative positions), whose gradient attention lacks: for
// programs that are to be differentiated.
Program fuse_differentiable_attention(Program program);

// Whether the value, of reals, depends on a parameter, so that a gradient goes through it.
bool is_trained(const Facts& facts, Value value);

}  // namespace plimsoll::program
