// The examples of docs/program.md are what the passes do.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "pass_check.h"
#include "plimsoll/program/passes/optimize.h"
#include "plimsoll/program/text.h"

namespace plimsoll::program {
namespace {

// The fenced blocks of the section on passes.
std::vector<std::string> examples() {
  std::ifstream file(PLIMSOLL_SOURCE_DIR "/docs/program.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> found;
  size_t begin = page.find("```\n", page.find("\n## Passes\n"));
  while (begin != std::string::npos) {
    const size_t end = page.find("```", begin + 4);
    found.push_back(page.substr(begin + 4, end - begin - 4));
    begin = page.find("```\n", end + 4);
  }
  return found;
}

TEST(PassesManual, ShowsProgramsBeforeAndAfter) {
  const std::vector<std::string> blocks = examples();
  ASSERT_EQ(blocks.size(), 6U);
  for (size_t i = 0; i < blocks.size(); i += 2) {
    EXPECT_EQ(completed(blocks[i]), blocks[i]);
    EXPECT_EQ(write_program(optimize(parse_program(blocks[i]))), blocks[i + 1]);
  }
}

}  // namespace
}  // namespace plimsoll::program
