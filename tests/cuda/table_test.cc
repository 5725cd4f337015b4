// What can be said of CUDA's kernels without a card: every op has one, and every text compiles.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "plimsoll/base/error.h"
#include "plimsoll/device/cuda/modules.h"
#include "plimsoll/device/cuda/nvrtc.h"
#include "plimsoll/device/cuda/paper.h"
#include "plimsoll/device/device.h"
#include "plimsoll/kernels/cuda/support/sources.h"
#include "plimsoll/kernels/device.h"
#include "plimsoll/program/op.h"
#include "plimsoll/program/text.h"
#include "plimsoll/run/session.h"
#include "tests/cuda/card.h"
#include "tests/kernels/against_reference.h"

namespace plimsoll {
namespace {

// State in a spill file: on a card, state that is not there is copied by `spill` and `fetch`.
const std::set<std::string> kWithout = {"momentum_spilled", "adam_spilled", "adamw_spilled", "lion_spilled"};

TEST(CudaTable, HasAKernelForEveryOp) {
  const kernels::KernelTable& table = kernels::cuda_kernels();
  for (const program::OpDef& def : program::op_table().all()) {
    EXPECT_EQ(table.find(def.name) == nullptr, kWithout.contains(def.name)) << def.name;
  }
}

TEST(CudaTable, HasTextsThatStandAlone) {
  EXPECT_GE(kernels::cuda::kernel_source_names().size(), 20U);
  for (const std::string_view name : kernels::cuda::kernel_source_names()) {
    EXPECT_EQ(kernels::cuda::kernel_source(name).find("#include"), std::string_view::npos) << name;
  }
  EXPECT_THROW(kernels::cuda::kernel_source("none"), ArgumentError);
}

// Binds a program on paper, which compiles all of its kernels.
void expect_compiles(const std::string& text) {
  SCOPED_TRACE(text);
  const program::Program program = with_gradients(text);
  EXPECT_NO_THROW(run::Session(program, {.device = "cuda", .threads = 1}, device::find_device("cuda").budget()));
}

TEST(CudaTable, CompilesWithoutACard) {
#ifdef PLIMSOLL_SANITIZED
  GTEST_SKIP() << "the compiler is not ours to look into";
#endif
  if (cuda::Nvrtc::find() == nullptr) GTEST_SKIP() << "there is no compiler of CUDA kernels here";
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    if (cuda::CompileOnly::architecture() != nullptr) GTEST_SKIP() << "all tests compile";
    const cuda::CompileOnly paper(architecture);
    expect_compiles("input %x: bf16[4,16]\ninput %w: bf16[8,16]\n%h = linear(%x, %w)\n%y = gelu(%h)\noutput %y\n");
    expect_compiles(
        "input %q: bf16[2,2,70,64]\ninput %k: bf16[2,2,70,64]\ninput %v: bf16[2,2,70,64]\n"
        "%y = attention(%q, %k, %v) {causal=true}\noutput %y\n");
    expect_compiles("input %x: f32[2,4,6,6]\ninput %w: f32[8,4,3,3]\n%y = conv(%x, %w)\n%r = relu(%y)\noutput %r\n");
  }
}

TEST(CudaModules, KeepMachineCodeOnDisk) {
#ifdef PLIMSOLL_SANITIZED
  GTEST_SKIP() << "the compiler is not ours to look into";
#endif
  if (cuda::Nvrtc::find() == nullptr) GTEST_SKIP() << "there is no compiler of CUDA kernels here";
  const char* const given = std::getenv("PLIMSOLL_CUDA_CACHE");
  const std::string before = given != nullptr ? given : "";
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "cuda_cache_of_test";
  std::filesystem::remove_all(folder);
  setenv("PLIMSOLL_CUDA_CACHE", folder.c_str(), 1);
  const std::string text = "extern \"C\" __global__ void run(int* x) { *x = 7; }";
  const std::string code = cuda::machine_code(text, "seven", "sm_90");
  ASSERT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  const std::filesystem::path kept = std::filesystem::directory_iterator(folder)->path();
  std::ofstream(kept) << "from the disk";
  EXPECT_EQ(cuda::machine_code(text, "seven", "sm_90"), "from the disk");
  EXPECT_NE(cuda::machine_code(text, "seven", "sm_80"), "from the disk");
  EXPECT_THROW(cuda::machine_code("no kernel", "bad", "sm_90"), SystemError);
  EXPECT_GT(code.size(), 500U);
  if (before.empty()) {
    unsetenv("PLIMSOLL_CUDA_CACHE");
  } else {
    setenv("PLIMSOLL_CUDA_CACHE", before.c_str(), 1);
  }
}

TEST(CudaTable, SaysWhatIsMissingWithoutACard) {
  if (has_card() || cuda::CompileOnly::architecture() != nullptr) GTEST_SKIP() << "there is a card";
  try {
    device::find_device("cuda");
    FAIL() << "found a card";
  } catch (const UnsupportedError& error) {
    EXPECT_NE(std::string(error.what()).find("driver"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace plimsoll
