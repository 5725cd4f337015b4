// The example of docs/eager.md is the one that is run: examples/eager_training.cc.
#include <gtest/gtest.h>

#include <sstream>

#include "plimsoll/base/file.h"

namespace plimsoll {
namespace {

std::string read(const std::string& path) { return read_file(std::string(PLIMSOLL_SOURCE_DIR) + path); }

TEST(EagerManual, ShowsWhatTheExampleRuns) {
  const std::string page = read("/docs/eager.md");
  const size_t begin = page.find("```cpp\n") + 7;
  std::istringstream shown(page.substr(begin, page.find("```", begin) - begin));
  std::string indented;
  for (std::string line; std::getline(shown, line);) indented += line.empty() ? "\n" : "  " + line + "\n";
  EXPECT_GT(indented.size(), 500U);
  EXPECT_NE(read("/examples/eager_training.cc").find(indented), std::string::npos) << indented;
}

}  // namespace
}  // namespace plimsoll
