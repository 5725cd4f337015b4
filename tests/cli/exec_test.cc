// `plimsoll exec` on real commands; torch is a stand-in where PyTorch itself would need a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/memory/memory_group.h"
#include "tests/memory/sanitized.h"
#include "tests/memory/temp_folder.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

const std::string kSource = PLIMSOLL_SOURCE_DIR;

struct Outcome {
  int status = -1;
  std::string output;  // stdout and stderr together
};

Outcome shell(const std::string& line) {
  Outcome outcome;
  std::FILE* const pipe = popen(("(" + line + ") 2>&1").c_str(), "r");
  char buffer[4096];
  while (const size_t got = std::fread(buffer, 1, sizeof(buffer), pipe)) outcome.output.append(buffer, got);
  outcome.status = WEXITSTATUS(pclose(pipe));
  return outcome;
}

Outcome exec(const std::string& arguments) { return shell(fmt::format("{} exec {}", PLIMSOLL_BINARY, arguments)); }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Runs a Python program with the stand-in torch; `options` are exec's.
class WithTorch {
 public:
  WithTorch() {
    setenv("PYTHONPATH", (kSource + "/tests/cli/fake_torch").c_str(), 1);
    setenv("FAKE_TORCH_SNAPSHOT", (kSource + "/tests/data/oom/oom_gpt2.pickle.gz").c_str(), 1);
    setenv("TMPDIR", folder_.path().c_str(), 1);
  }
  ~WithTorch() {
    unsetenv("PYTHONPATH");
    unsetenv("TMPDIR");
  }

  Outcome run(const std::string& options, const std::string& program) {
    const std::string path = folder_.path() + "/train.py";
    std::ofstream(path) << program;
    return exec(fmt::format("{} -- python3 -B {}", options, path));
  }
  const std::string& folder() const { return folder_.path(); }

 private:
  TempFolder folder_;
};

TEST(CliExec, KeepsTheExitStatus) {
  EXPECT_EQ(exec("-- true").status, 0);
  EXPECT_EQ(exec("-- sh -c 'exit 7'").status, 7);
  EXPECT_EQ(exec("-- python3 -c 'raise SystemExit(5)'").status, 5);
  EXPECT_EQ(exec("-- sh -c 'kill -15 $$'").status, 128 + 15);
  const Outcome missing = exec("-- no-such-command-of-ours");
  EXPECT_EQ(missing.status, 127);
  EXPECT_TRUE(contains(missing.output, "no-such-command-of-ours cannot be run")) << missing.output;
}

TEST(CliExec, PassesOutputAndArgumentsThrough) {
  const Outcome outcome = exec("-- sh -c 'echo out $0 $1; echo err >&2' --budget '' ");
  EXPECT_TRUE(contains(outcome.output, "out --budget")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "err")) << outcome.output;
  EXPECT_FALSE(contains(outcome.output, "plimsoll")) << "nothing ran out, so nothing is said";
}

TEST(CliExec, RefusesABudgetThatIsNone) {
  EXPECT_EQ(exec("--budget much -- true").status, 2);
  EXPECT_EQ(exec("--budget 0 -- true").status, 2);
}

TEST(CliExec, ExplainsWhatTheCommandPrintedWhenItDied) {
  const Outcome outcome = exec(fmt::format("-- sh -c 'cat {}/tests/data/oom/oom_gpt2.txt >&2; exit 1'", kSource));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(contains(outcome.output, "plimsoll: the command ran out of memory")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "what would help")) << outcome.output;
}

TEST(CliExec, RecordsLazilyAndExplainsTheSnapshot) {
  WithTorch with;
  const Outcome outcome = with.run("--budget 10GiB --html " + with.folder() + "/oom.html", R"(
import torch
assert torch.asked == [], "CUDA has not started"
torch.empty(1 << 30)
assert torch.asked[0] == ("record", dict(enabled="all", context="alloc", stacks="python", max_entries=100000))
kind, fraction, device = torch.asked[1]
assert (kind, device) == ("fraction", 0) and 9 << 30 < fraction * torch.TOTAL < 10 << 30, torch.asked
torch.empty(20 << 30)
)");
  EXPECT_EQ(outcome.status, 1) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "OutOfMemoryError: CUDA out of memory")) << "PyTorch's own error stays";
  EXPECT_TRUE(contains(outcome.output, "ran out of memory\n")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "what would help")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "snapshot: " + with.folder())) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "cuda:0  peak 1.00 GiB allocated")) << outcome.output;
  EXPECT_GT(std::filesystem::file_size(with.folder() + "/oom.html"), 1000u);
}

TEST(CliExec, SaysThatAnErrorWasCaught) {
  WithTorch with;
  const Outcome outcome = with.run("--budget 10GiB --on-oom 'echo hook $PLIMSOLL_OOM_SNAPSHOT'", R"(
import torch
torch.empty(1 << 30)
try:
    torch.empty(20 << 30)
except torch.OutOfMemoryError:
    torch.empty(1 << 30)
)");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "memory ran out, and the command went on")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "hook " + with.folder())) << outcome.output;
}

TEST(CliExec, WritesTheHistoryOfARunThatEndsWell) {
  WithTorch with;
  const std::string record = with.folder() + "/run.pickle";
  const Outcome outcome = with.run("--json --record " + record, "import torch\ntorch.empty(1 << 30)\n");
  const Json json = Json::parse(outcome.output.substr(outcome.output.find('{')));
  EXPECT_EQ(json["out_of_memory"], false);
  EXPECT_EQ(json["recordings"], Json::array({record}));
  EXPECT_EQ(json["processes"][0]["devices"][0]["peak_allocated_bytes"], 1 << 30);
  EXPECT_EQ(shell(PLIMSOLL_BINARY " explain " + record).status, 1) << "the stand-in's snapshot is one of an error";
}

TEST(CliExec, KeepsARankApartFromAnother) {
  WithTorch with;
  const Outcome outcome = with.run("--json --budget 10GiB", R"(
import os, subprocess, sys
if "RANK" in os.environ:
    import torch
    torch.empty(20 << 30)
for rank in range(2):
    subprocess.run([sys.executable, "-B", sys.argv[0]], env={**os.environ, "RANK": str(rank)}, stderr=subprocess.DEVNULL)
)");
  EXPECT_EQ(outcome.status, 0);
  const Json json = Json::parse(outcome.output.substr(outcome.output.find('{')));
  ASSERT_EQ(json["findings"].size(), 2u) << outcome.output;
  EXPECT_EQ(json["findings"][0]["who"], "rank 0");
  EXPECT_EQ(json["findings"][1]["who"], "rank 1");
}

TEST(CliExec, RunsTheSitecustomizeThatItHides) {
  WithTorch with;
  std::ofstream(with.folder() + "/sitecustomize.py") << "import sys\nsys.hidden = 'seen'\n";
  setenv("PYTHONPATH", (with.folder() + ":" + kSource + "/tests/cli/fake_torch").c_str(), 1);
  const Outcome outcome = with.run("", "import sys\nprint(sys.hidden)\n");
  EXPECT_TRUE(contains(outcome.output, "seen")) << outcome.output;
}

TEST(CliExec, LeavesNoFolderBehindWhenNothingRanOut) {
  WithTorch with;
  with.run("", "import torch\ntorch.empty(1)\n");
  for (const auto& entry : std::filesystem::directory_iterator(with.folder())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("plimsoll-exec")) << entry.path();
  }
}

TEST(CliExec, RefusesAPoolBesideAnotherBackend) {
  setenv("PYTORCH_CUDA_ALLOC_CONF", "backend:native", 1);
  const Outcome outcome = exec("--pool -- true");
  unsetenv("PYTORCH_CUDA_ALLOC_CONF");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_TRUE(contains(outcome.output, "PYTORCH_CUDA_ALLOC_CONF is set to backend:native")) << outcome.output;
}

// A runtime that a module brings along, as PyTorch's does; the pool is before it.
constexpr const char* kPoolProgram = R"(
import ctypes, os, sys
runtime = ctypes.CDLL(os.environ["STAND_IN"] + "/libcudart.so.1", mode=ctypes.RTLD_GLOBAL)
process = ctypes.CDLL(None)
tensor = ctypes.c_void_p()
assert process.cudaMallocAsync(ctypes.byref(tensor), ctypes.c_size_t(8 << 20), None) == 0
assert runtime.stand_in_passed() == 0, "the pool serves it"
assert "backend:cudaMallocAsync" in os.environ["PYTORCH_CUDA_ALLOC_CONF"]
free, total = ctypes.c_size_t(), ctypes.c_size_t()
assert process.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)) == 0
assert total.value == 32 << 20, total.value
more = ctypes.c_void_p()
assert process.cudaMallocAsync(ctypes.byref(more), ctypes.c_size_t(28 << 20), None) == 2
assert process.cudaFreeAsync(tensor, None) == 0
)";

TEST(CliExec, PutsThePoolUnderAProgram) {
  if (kSanitized) GTEST_SKIP() << "Python is no program of a sanitizer; tests/preload has the same calls";
  WithTorch with;
  const std::string stand_in = std::filesystem::path(PLIMSOLL_BINARY).parent_path() / "../tests/device/stand_in";
  setenv("STAND_IN", stand_in.c_str(), 1);
  setenv("PLIMSOLL_CUDA_DRIVER", (stand_in + "/libcuda.so.1").c_str(), 1);
  const std::string record = with.folder() + "/pool.bin";
  const Outcome outcome = with.run("--pool --budget 32MiB --record " + record, kPoolProgram);
  unsetenv("PLIMSOLL_CUDA_DRIVER");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "OOM when allocating")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "memory ran out, and the command went on")) << outcome.output;
  const Outcome replay = shell(PLIMSOLL_BINARY " replay --json " + record);
  EXPECT_EQ(Json::parse(replay.output)["live_peak_bytes"], 8 << 20) << replay.output;
}

TEST(CliExec, ExplainsAKillByTheKernel) {
  const auto parent = MemoryGroup::folder_for_groups();
  if (!parent) GTEST_SKIP() << "no memory cgroups";
  const MemoryGroup group(*parent, 256 << 20);
  if (!group.works() || kSanitized) GTEST_SKIP() << "no cgroup of one's own, or a sanitizer's memory in it";
  const TempFolder folder;
  folder.write("run.sh", fmt::format("echo $$ > {}/cgroup.procs && exec {} exec -- python3 -c 'bytearray(1 << 30)'\n",
                                     group.path().string(), PLIMSOLL_BINARY));
  const Outcome outcome = shell("sh " + folder.path() + "/run.sh");
  if (contains(outcome.output, "cgroup.procs")) GTEST_SKIP() << outcome.output;
  EXPECT_EQ(outcome.status, 137) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "memory cgroup reached its limit")) << outcome.output;
}

}  // namespace
}  // namespace plimsoll
