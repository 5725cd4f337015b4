// An Explanation as text for a terminal and as JSON. Neither prints.
#pragma once

#include <string>

#include "plimsoll/explain/diagnosis.h"

namespace plimsoll::report {

struct TextStyle {
  bool full = false;    // everything; otherwise one screen
  bool colour = false;  // only for a terminal
};

std::string explanation_text(const explain::Explanation& explanation, const TextStyle& style);

// Stable keys; bytes are integers under names that end in _bytes. `cause` is one of the names in the manual.
std::string explanation_json(const explain::Explanation& explanation);

}  // namespace plimsoll::report
