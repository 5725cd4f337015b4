#include "tests/cuda/card.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "plimsoll/device/cuda/paper.h"
#include "plimsoll/device/cuda/runtime.h"
#include "plimsoll/device/device.h"
#include "tests/kernels/against_reference.h"

namespace plimsoll {
namespace {

// Chooses the device before the first test; says which.
class Card : public testing::Environment {
 public:
  void SetUp() override {
    if (const char* paper = std::getenv("PLIMSOLL_CUDA_PAPER")) {
      paper_ = std::make_unique<cuda::CompileOnly>(paper);
      compare_on("cuda");
      return;
    }
    compare_on(has_card() ? "cuda" : "");
    if (!has_card()) return;
    cuda::Runtime& runtime = cuda::Runtime::current();
    fmt::print(
        "card: {}; cuBLASLt {}; cuDNN {}\n", device::find_device("cuda").cost_id(),
        runtime.blas() != nullptr ? fmt::format("{} ({})", runtime.blas()->version(), runtime.blas()->path) : "none",
        runtime.dnn() != nullptr ? fmt::format("{} ({})", runtime.dnn()->version(), runtime.dnn()->path) : "none");
  }
  void TearDown() override { paper_.reset(); }

 private:
  std::unique_ptr<cuda::CompileOnly> paper_;
};

[[maybe_unused]] testing::Environment* const kCard = testing::AddGlobalTestEnvironment(new Card);

}  // namespace

bool has_card() {
  if (cuda::CompileOnly::architecture() != nullptr) return false;
  static const bool found = [] {
    try {
      device::find_device("cuda");
      return true;
    } catch (const Error&) {
      return false;
    }
  }();
  return found;
}

}  // namespace plimsoll
