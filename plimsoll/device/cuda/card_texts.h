// The files in device/cuda/cards/, embedded by the build.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::cuda {

std::vector<std::pair<std::string_view, std::string_view>> card_texts();  // name and JSON

}  // namespace plimsoll::cuda
