#include "plimsoll/report/dot.h"

#include <gtest/gtest.h>

#include "plimsoll/program/text.h"

namespace plimsoll::report {
namespace {

TEST(Dot, HasBytesOnTheEdges) {
  const program::Program program = program::parse_program(R"(
input %x: f32[2,256]
parameter %w: f32[4,256]
%y = linear(%x, %w)
%z = relu(%y)
output %z)");
  const std::string text = dot_graph(program, "a \"model\"");
  EXPECT_TRUE(text.starts_with("digraph step {"));
  EXPECT_NE(text.find("label=\"a \\\"model\\\"\""), std::string::npos);
  EXPECT_NE(text.find("v0 -> op0 [label=\"2.00 KiB\"]"), std::string::npos) << text;
  EXPECT_NE(text.find("v1 -> op0 [label=\"4.00 KiB\"]"), std::string::npos);
  EXPECT_NE(text.find("op0 -> op1 [label=\"32 B\"]"), std::string::npos);
  EXPECT_NE(text.find("op1 -> out0 [label=\"32 B\"]"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::report
