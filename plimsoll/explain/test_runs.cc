#include "plimsoll/explain/test_runs.h"

#include <algorithm>
#include <cctype>

#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string_view::npos;

struct Runner {
  std::string_view begins;  // the name follows, or is the word around it
  std::string_view passes;
  std::string_view fails;
};

constexpr Runner kRunners[] = {{"[ RUN      ] ", "[       OK ] ", "[  FAILED  ] "},
                               {"=== RUN ", "--- PASS: ", "--- FAIL: "}};

// Up to what a logger or a terminal puts behind it.
std::string name_in(std::string_view text) {
  text = trim(text);
  const auto ends = [](unsigned char c) {
    return std::isalnum(c) == 0 && std::string_view("_./:-").find(static_cast<char>(c)) == npos;
  };
  return {text.begin(), std::find_if(text.begin(), text.end(), ends)};
}

std::string open_of(const Runner& runner, std::string_view before) {
  const size_t at = before.rfind(runner.begins);
  if (at == npos) return {};
  const std::string_view rest = before.substr(at + runner.begins.size());
  std::string name = name_in(rest);
  const bool over =
      contains(rest, std::string(runner.passes) + name) || contains(rest, std::string(runner.fails) + name);
  return over ? std::string() : name;
}

// Python's runners print the name, then what the test prints, then how it ended.
std::string open_of_python(std::string_view text) {
  const size_t pytest = text.rfind(".py::");
  const size_t unittest = text.rfind(") ... ");
  if (pytest == npos && unittest == npos) return {};
  const size_t at = pytest == npos ? unittest : unittest == npos ? pytest : std::max(pytest, unittest);
  const std::string_view rest = text.substr(text.rfind('\n', at) + 1);  // npos + 1 is 0
  for (const std::string_view over : {"PASSED", "FAILED", "SKIPPED", "\nok\n", "\nFAIL", "... ok", "Traceback"}) {
    if (contains(rest, over)) return {};
  }
  std::string name = name_in(rest);
  return contains(name, "test") ? name : std::string();
}

}  // namespace

std::string open_test(std::string_view before, std::string_view line) {
  for (const Runner& runner : kRunners) {
    if (std::string name = open_of(runner, before); !name.empty()) return name;
  }
  constexpr size_t kNear = 2048;
  return open_of_python(std::string(before.substr(before.size() - std::min(before.size(), kNear))) + std::string(line));
}

std::optional<std::string> passed_test(std::string_view line) {
  for (const Runner& runner : kRunners) {
    if (const auto rest = after(line, runner.passes)) return name_in(*rest);
  }
  const std::string_view text = trim(line);
  const bool python = text == "PASSED" || text.starts_with("PASSED  ") || text == "ok";
  return python ? std::optional(std::string()) : std::nullopt;
}

bool all_tests_passed(std::string_view line) {
  return contains(line, "All tests passed (") || contains(line, "[doctest] Status: SUCCESS!");
}

}  // namespace plimsoll::explain
