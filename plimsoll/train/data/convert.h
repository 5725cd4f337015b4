// Values of a field as a program's input takes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "plimsoll/program/program.h"
#include "plimsoll/train/data/source.h"

namespace plimsoll::train::data {

// Which field an input of the program gets: by name, else the one beside "target". ArgumentError where none does, with
// the names there are.
size_t field_of(const std::vector<Field>& fields, const program::Program& program, program::Value input);

// Writes samples of a field (all of them in `stored`) into the memory of an input: floating-point inputs get value *
// scale + offset rounded to their dtype, integer inputs integers. ArgumentError for other pairs and for samples of
// another number of values.
void convert_samples(const Field& field, std::span<const std::byte> stored, const program::ValueInfo& input,
                     std::span<std::byte> into);

}  // namespace plimsoll::train::data
