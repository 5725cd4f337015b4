// Attention that exporters take apart, put together again.
#pragma once

#include "plimsoll/program/program.h"

namespace plimsoll::program {

// softmax(q k' * scale + mask) v over [batch, heads, .., ..] becomes `attention`, which never holds the scores. The
// scale may stand at q, at k or at the scores; the mask is added, or chooses minus infinity (`where`). Equal to
// rounding; a query that sees no key gives zeros, where the parts gave no number.
//
// With fewer keys than v is wide the scores are smaller than the result, and are left as they are; before sizes are
// bound attention is always put together.
Program fuse_attention(Program program);

}  // namespace plimsoll::program
