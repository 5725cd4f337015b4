// Programs as text. One declaration or op to a line; `#` starts a comment. write_program and parse_program are inverse:
// parsing what was written and writing it again gives the same text.
//
//   input %x: f32[batch,29]
//   parameter %w: f32[10,29]
//   %y: f32[batch,10] = matmul(%x, %w) {transpose_b=true}
//   %grad.w: f32[10,29] gradient = matmul(%grad.y, %x) {transpose_a=true} @backward
//   output %y
//
// Types of op outputs may be left out when reading; given ones must be what the op infers. `_` stands for an optional
// output that is not made. A category is written where it is not the usual one.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/program/program.h"

namespace plimsoll::program {

std::string write_program(const Program& program);

// InputError with line and column. `source` names the text in messages.
Program parse_program(std::string_view text, std::string_view source = "program");

}  // namespace plimsoll::program
