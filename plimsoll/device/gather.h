// What each rank has to say, on all of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/device/communicator.h"

namespace plimsoll::device {

// Called by every rank; in their order. Texts may differ in length.
std::vector<std::string> gather_texts(Communicator& ranks, const std::string& text);
// Of each rank, as many values as the others have.
std::vector<std::vector<double>> gather_values(Communicator& ranks, const std::vector<double>& values);

}  // namespace plimsoll::device
