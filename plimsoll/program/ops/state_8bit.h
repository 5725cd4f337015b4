// Optimizer updates whose state is held in 8 bits between steps: `momentum_8bit`, `adam_8bit`, `adamw_8bit`. They mean
// what the plain ops mean (optimizer.h): the state is made f32, a block at a time, the parameter is updated with it as
// it is then, and only what is kept for the next step is rounded to a code (state_code.h). That changes the numbers, so
// it is for those who allow it. All of them read `step`, which must change from step to step: chances are drawn by it.
#pragma once

#include "plimsoll/program/ops/optimizer.h"

namespace plimsoll::program {

// Smaller parameters are not worth the loss: their state stays as it is.
inline constexpr int64_t kLeastQuantized = 4096;  // elements

// One state of a parameter: u8 of its shape, and an f32 for each block of kStateBlock elements.
struct State8Bit {
  Value codes;
  Value scales;
};
struct Moments8Bit {
  State8Bit mean;
  State8Bit square;
};

// How many scales a state of so many elements has.
Dim scales_of(Dim elements);

Value momentum_8bit(Builder& b, Value w, Value dw, State8Bit velocity, Value step, Value rate,
                    MomentumOptions options = {});
Value adam_8bit(Builder& b, Value w, Value dw, Moments8Bit moments, Value step, Value rate, AdamOptions options = {});
Value adamw_8bit(Builder& b, Value w, Value dw, Moments8Bit moments, Value step, Value rate, AdamOptions options = {});

}  // namespace plimsoll::program
