// One and two threads give the same bits, for every op of these models but those that docs/kernels.md names: there
// oneDNN divides sums by the number of threads.
#include "plimsoll/device/threads.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/prepare.h"
#include "plimsoll/models/step.h"
#include "plimsoll/plan/cost_cache.h"
#include "plimsoll/program/autodiff.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/linear.h"
#include "plimsoll/program/ops/loss.h"
#include "plimsoll/program/ops/norm.h"
#include "tests/memory/sanitized.h"

namespace plimsoll::kernels {
namespace {

using program::Op;
using program::Value;

const std::set<std::string> kDividedByOneDnn = {"conv_backward_weights", "linear", "matmul"};

// The operands, results and scratch of one op, with numbers around zero in what it reads; whole numbers are 0.
class OneOp {
 public:
  OneOp(const Lowered& lowered, size_t place)
      : program_(lowered.program), op_(program_.ops[place]), kernel_(lowered.ops[place].kernel) {
    uint32_t state = 1;
    for (const auto* list : {&op_.inputs, &op_.outputs}) {
      for (const Value value : *list) {
        if (value) add(program_[value].storage, state);
      }
    }
    scratch_.resize(static_cast<size_t>(kernel_.scratch_bytes + kAlignment));
  }

  // What it writes, result after result.
  std::vector<std::vector<std::byte>> run() {
    Memory memory;
    for (const Value value : op_.inputs) memory.inputs.push_back(address(value));
    for (const Value value : op_.outputs) memory.outputs.push_back(value ? address(value) : nullptr);
    memory.scratch = aligned(scratch_);
    kernel_.bind(memory)();
    std::vector<std::vector<std::byte>> results;
    for (const Value value : op_.outputs) {
      if (!value) continue;
      const std::byte* first = address(value);
      results.emplace_back(first, first + program_[value].type.spec().bytes());
    }
    return results;
  }

 private:
  static std::byte* aligned(std::vector<std::byte>& bytes) {
    const auto at = reinterpret_cast<uintptr_t>(bytes.data());
    return bytes.data() + (align_up(static_cast<int64_t>(at), kAlignment) - static_cast<int64_t>(at));
  }

  void add(Value owner, uint32_t& state) {
    if (memory_.contains(owner.index)) return;
    const TensorSpec spec = program_[owner].type.spec();
    std::vector<std::byte>& bytes = memory_[owner.index];
    bytes.resize(static_cast<size_t>(spec.bytes() + kAlignment));
    const int64_t elements = spec.shape.elements();
    for (int64_t i = 0; i < elements; ++i) {
      state = state * 1664525 + 1013904223;
      const float x = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31F;
      uint32_t bits = 0;
      std::memcpy(&bits, &x, sizeof(bits));
      const uint16_t bf16 = static_cast<uint16_t>(bits >> 16);
      const uint16_t f16 = static_cast<uint16_t>(((state >> 16) & 0x8000U) | ((8 + state % 7) << 10) | (bits & 0x3ffU));
      std::byte* at = aligned(bytes) + i * element_bytes(spec.dtype);
      if (spec.dtype == DType::f32) std::memcpy(at, &x, sizeof(x));
      if (spec.dtype == DType::bf16) std::memcpy(at, &bf16, sizeof(bf16));
      if (spec.dtype == DType::f16) std::memcpy(at, &f16, sizeof(f16));
    }
  }

  std::byte* address(Value value) {
    const program::ValueInfo& info = program_[value];
    const int64_t inside = program::layout(info).offset.constant() * element_bytes(info.type.dtype);
    return aligned(memory_.at(info.storage.index)) + inside;
  }

  const program::Program& program_;
  const Op& op_;
  const Kernel& kernel_;
  std::map<int32_t, std::vector<std::byte>> memory_;  // by owner
  std::vector<std::byte> scratch_;
};

struct Case {
  std::string_view model;
  program::Bindings sizes;
  DType precision = DType::f32;
};

class ThreadsOf : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Models, ThreadsOf,
                         testing::Values(Case{"lenet", {{"batch", 16}}}, Case{"lenet", {{"batch", 16}}, DType::bf16},
                                         Case{"gpt2-nano", {{"batch", 1}, {"sequence", 64}}, DType::f16}));

// Names of ops whose results differ between one thread and two.
std::set<std::string> find_different(const program::Program& step) {
  const Lowered one = prepare(step, {.threads = 1});
  const Lowered two = prepare(step, {.threads = 2});
  std::set<std::string> seen;
  std::set<std::string> differ;
  for (size_t i = 0; i < one.ops.size(); ++i) {
    if (!one.ops[i].kernel.bind || !seen.insert(plan::cost_key(one, static_cast<int32_t>(i))).second) continue;
    device::use_threads(1);
    const auto expected = OneOp(one, i).run();
    device::use_threads(2);
    if (OneOp(two, i).run() != expected) differ.insert(one.program.ops[i].def->name);
  }
  EXPECT_GT(seen.size(), 5U);
  return differ;
}

TEST_P(ThreadsOf, OneAndTwoGiveTheSameBits) {
  if (kSanitized) GTEST_SKIP() << "the kernels are the same, and slow";
  if (thread_count({}) < 2) GTEST_SKIP() << "this machine has one thread";
  models::StepOptions options = {.precision = GetParam().precision, .sizes = GetParam().sizes};
  options.train.optimizer = program::Optimizer::adam;
  for (const std::string& name : find_different(models::build_step(models::find_model(GetParam().model), options))) {
    EXPECT_TRUE(kDividedByOneDnn.contains(name)) << name;
  }
}

// Sums that are long enough for several threads.
TEST(Threads, DoNotDivideOurSums) {
  if (thread_count({}) < 2) GTEST_SKIP() << "this machine has one thread";
  program::Builder b;
  const Value x = b.input("x", {DType::f32, {1000, 96}});
  const Value image = b.input("image", {DType::f32, {20, 32, 9, 9}});
  const Value targets = b.input("targets", {DType::i64, {1000}});
  const Value w = b.parameter("w", {DType::f32, {96, 96}});
  const Value bias = b.parameter("bias", {DType::f32, {96}});
  const Value scale = b.parameter("scale", {DType::f32, {32}});
  Value y = program::linear(b, x, w, bias);
  y = program::layer_norm(b, y, bias, bias);
  y = program::rms_norm(b, y, bias);
  const Value loss = program::cross_entropy(b, y, targets);
  const Value grouped = program::group_norm(b, image, 4, scale, scale);
  const Value all = program::add(b, loss, program::mse_loss(b, grouped, image));
  b.output(all);
  for (const Value gradient : program::gradients(b, all, std::vector<Value>{w, bias, scale})) b.output(gradient);
  EXPECT_EQ(find_different(std::move(b).finish()), std::set<std::string>{});
}

}  // namespace
}  // namespace plimsoll::kernels
