// What the lines around a failure tell about it: which server ran, whether it was training, which version, how large
// the card is, what the allocator's statistics were.
#pragma once

#include <string_view>

#include "plimsoll/explain/failure.h"

namespace plimsoll::explain {

// `before` is the end of the log up to the failure's first line, or as much of it as is kept.
void add_context(std::string_view before, Failure& failure);

// Whether anything in it, or the message, is a size of the device's, for a failure without figures; the same lines are
// not read for each of its repetitions.
void add_device_figures(std::string_view before, Failure& failure);

// A frame below a Java heap's error tells whose heap it was; says whether the line is one.
bool add_java_frame(std::string_view line, Failure& failure);

// The memory of a card as TensorFlow, JAX or llama.cpp announce it when they start; nothing in other lines.
OptionalBytes announced_device_bytes(std::string_view line);

}  // namespace plimsoll::explain
