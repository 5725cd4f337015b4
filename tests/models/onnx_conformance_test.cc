// ONNX's conformance cases of single nodes: Debian's libonnx-testdata, or the folder in PLIMSOLL_ONNX_CASES
// (scripts/onnx_node_cases.py makes that of the newest ones). With PLIMSOLL_ONNX_TABLE the page docs/onnx-ops.md is
// written there.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "plimsoll/base/file.h"
#include "tests/models/onnx_cases.h"

namespace plimsoll::models {
namespace {

std::string cases_folder() {
  const char* given = std::getenv("PLIMSOLL_ONNX_CASES");
  return given != nullptr ? given : "/usr/share/libonnx-testdata/data/node";
}

TEST(OnnxConformance, NodeCasesPassOrSayWhyNot) {
  const std::string folder = cases_folder();
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no cases in " << folder;
  const std::vector<CaseResult> results = run_cases(folder);
  ASSERT_FALSE(results.empty());
  size_t passed = 0;
  for (const CaseResult& result : results) {
    EXPECT_NE(result.outcome, CaseResult::Outcome::wrong) << result.name << ": " << result.why;
    EXPECT_TRUE(result.outcome == CaseResult::Outcome::pass || !result.why.empty()) << result.name;
    passed += result.outcome == CaseResult::Outcome::pass ? 1 : 0;
  }
  if (const char* table = std::getenv("PLIMSOLL_ONNX_TABLE")) {
    const char* source = std::getenv("PLIMSOLL_ONNX_SOURCE");
    write_file(table, conformance_page(results, source != nullptr ? source : "libonnx-testdata"));
  }
  std::printf("%zu of %zu node cases pass\n", passed, results.size());
  EXPECT_GE(4 * passed, 3 * results.size()) << passed << " of " << results.size();
}

// Whole models (ResNet-50, DenseNet, VGG-19, ..) as folders of the same form, in PLIMSOLL_ONNX_MODEL_CASES;
// scripts/onnx_model_cases.py makes them of what `pip install onnx` brings.
TEST(OnnxConformance, ModelCasesPass) {
  const char* folder = std::getenv("PLIMSOLL_ONNX_MODEL_CASES");
  if (folder == nullptr) GTEST_SKIP() << "PLIMSOLL_ONNX_MODEL_CASES names no folder";
  const std::vector<CaseResult> results = run_cases(folder);
  EXPECT_FALSE(results.empty());
  for (const CaseResult& result : results) {
    EXPECT_EQ(result.outcome, CaseResult::Outcome::pass) << result.name << ": " << result.why;
  }
}

}  // namespace
}  // namespace plimsoll::models
