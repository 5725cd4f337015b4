// One self-contained page: the diagnoses, the timeline of live bytes and the map of segments. It opens from disk, asks
// no network for anything, and draws on canvas, so that a million events stay fluent.
#pragma once

#include <string>

#include "plimsoll/explain/diagnosis.h"
#include "plimsoll/explain/explain.h"

namespace plimsoll::report {

// For a snapshot or trace of several devices the first with a failure is drawn, else the first. Nothing in the input
// can break out of its place in the page: text goes in as JSON with every '<' escaped and is only ever shown as text.
std::string html_page(const explain::Explanation& explanation, const explain::Input& input);

}  // namespace plimsoll::report
