// The page of an explanation: the diagnoses, the history of live bytes with what could have been otherwise, and the
// segments of the allocator.
#pragma once

#include <string>

#include "plimsoll/explain/diagnosis.h"
#include "plimsoll/explain/explain.h"
#include "plimsoll/report/page.h"

namespace plimsoll::report {

// For a snapshot or trace of several devices the first with a failure is drawn, else the first.
Page explanation_page(const explain::Explanation& explanation, const explain::Input& input);

// As `html` of page.h.
std::string html_page(const explain::Explanation& explanation, const explain::Input& input);

}  // namespace plimsoll::report
