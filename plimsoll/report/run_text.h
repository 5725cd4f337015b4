// The bytes of a run as text: what it was planned to take, and what it took.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plimsoll/base/budget.h"
#include "plimsoll/train/fit_model.h"
#include "plimsoll/train/start_session.h"

namespace plimsoll::report {

// "  arena          1.50 GiB        1,610,612,736 bytes  that the step ran in\n"
std::string bytes_line(std::string_view what, int64_t bytes, std::string_view note);

// Of a step that ran in the memory that it takes as it is.
std::string peaks_text(const train::Peaks& peaks);

// A plan as it was chosen for the whole process, with a picture of its live bytes against the budget.
std::string fit_text(const train::Fit& fit, const Budget& budget);

}  // namespace plimsoll::report
