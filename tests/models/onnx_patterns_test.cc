// What PyTorch's two exporters take apart is put together again: small graphs of theirs, written by
// tests/models/torch/export_patterns.py.
#include <gtest/gtest.h>

#include <map>
#include <ostream>

#include "plimsoll/models/onnx/load.h"
#include "plimsoll/program/passes/optimize.h"

namespace plimsoll::models {
namespace {

struct Pattern {
  std::string file;
  std::map<std::string, int> ops;  // how many of each there are in a whole step; 0: none is left
};

class OnnxPatterns : public testing::TestWithParam<Pattern> {};

void PrintTo(const Pattern& pattern, std::ostream* out) { *out << pattern.file; }

TEST_P(OnnxPatterns, OfBothExporters) {
  const Pattern& pattern = GetParam();
  for (const char* exporter : {"torchscript", "dynamo"}) {
    const ModelInfo info = load_onnx(PLIMSOLL_SOURCE_DIR "/tests/data/onnx/" + pattern.file + "." + exporter + ".onnx");
    Model model = info.build({.training = false}, Size::full);
    const program::Program step = program::optimize(program::bind(std::move(model.program), {{"batch", 2}}));
    std::map<std::string, int> found;
    for (const auto& [op, count] : pattern.ops) found[op] = 0;
    for (const program::Op& op : step.ops) {
      if (pattern.ops.contains(op.def->name)) ++found[op.def->name];
    }
    EXPECT_EQ(found, pattern.ops) << exporter;
  }
}

// Attention between four linear layers with a bias, which are products with an epilogue.
Pattern attention(const std::string& file) {
  return {file, {{"attention", 1}, {"matmul_epilogue", 4}, {"softmax", 0}, {"matmul", 0}}};
}

INSTANTIATE_TEST_SUITE_P(
    All, OnnxPatterns,
    testing::Values(Pattern{"gelu_erf", {{"gelu", 1}, {"erf", 0}, {"mul", 0}}},
                    Pattern{"gelu_tanh", {{"gelu_tanh", 1}, {"tanh", 0}, {"mul", 0}}},
                    Pattern{"silu", {{"silu", 1}, {"sigmoid", 0}, {"mul", 0}}},
                    Pattern{"layer_norm", {{"layer_norm", 1}, {"mean", 0}, {"sub", 0}}},
                    Pattern{"rms_norm", {{"rms_norm", 1}, {"mean", 0}, {"mul", 0}}},
                    Pattern{"linear", {{"matmul_epilogue", 1}, {"matmul", 0}, {"add", 0}}}, attention("attention"),
                    attention("attention_causal"), attention("attention_mask"), attention("attention_mask_eager"),
                    attention("attention_grouped_rotary"),
                    Pattern{"residual", {{"conv_epilogue", 1}, {"add", 0}, {"relu", 0}}},
                    Pattern{"cross_entropy", {{"cross_entropy", 1}, {"linear", 1}, {"log_softmax", 0}}}),
    [](const auto& one) { return one.param.file; });

}  // namespace
}  // namespace plimsoll::models
