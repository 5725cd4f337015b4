// Logs of tests. What fails inside a test that passes is what the test is about, and no failure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::explain {

// The test that is under way where `line` comes after `before`: "Pool.Grows" of GoogleTest, "TestPool" of Go,
// "test_pool.py::test_grows" of pytest with its output shown, "test_grows" of unittest. Empty when none is.
std::string open_test(std::string_view before, std::string_view line);

// The test that `line` says has passed, by its name there; empty when it is the one under way, whatever its name.
std::optional<std::string> passed_test(std::string_view line);

// Whether `line` says of a whole run that all its tests passed.
bool all_tests_passed(std::string_view line);

}  // namespace plimsoll::explain
