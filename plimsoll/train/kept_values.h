// What a session keeps from step to step, by name: parameters and the state that is f32.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/run/executor.h"

namespace plimsoll::train {

std::vector<std::string> kept_names(const run::Executor& executor);
// ArgumentError for a name that there is not, and from run::read_floats and write_floats.
std::vector<float> read_kept(run::Executor& executor, std::string_view name);
void write_kept(run::Executor& executor, std::string_view name, std::span<const float> values);

}  // namespace plimsoll::train
