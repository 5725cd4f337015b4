// An allocation that failed and is tried again with less, or left out, is no failure, unless the program dies of it
// after all. What the lines after it say of that.
#pragma once

#include <string_view>

namespace plimsoll::explain {

// The program says that it goes on: "compute buffer allocation failed, retrying without pipeline parallelism",
// "skipping batch". Advice to do so, and what somebody says that he tried, is none of it.
bool says_it_goes_on(std::string_view line);

// It does go on: a loss, a speed, a model that is loaded.
bool shows_work(std::string_view line);

// It ended: an exception that reached the top, an exit code, "giving up".
bool shows_end(std::string_view line);

}  // namespace plimsoll::explain
