// Sources of the same fields, one after the other.
#pragma once

#include <memory>
#include <vector>

#include "plimsoll/train/data/source.h"

namespace plimsoll::train::data {

std::unique_ptr<Source> joined(std::vector<std::shared_ptr<const Source>> parts);  // one at least

}  // namespace plimsoll::train::data
