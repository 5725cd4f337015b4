// Several ranks as a user starts them: mpirun -n 4 plimsoll train ..
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "plimsoll/base/temporary_folder.h"
#include "tests/cli/run.h"
#include "tests/memory/sanitized.h"

namespace {

using Json = nlohmann::json;

bool has_mpi() { return std::system("mpirun --version > /dev/null 2>&1") == 0; }

// As root too, on fewer cores than ranks. What MPI does not free at its end is no leak of ours.
std::string mpirun(int ranks) {
  return fmt::format(
      "env ASAN_OPTIONS=detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
      "OMPI_MCA_rmaps_base_oversubscribe=1 "
      "OMPI_MCA_btl_vader_single_copy_mechanism=none timeout -k 1 120 mpirun -n {}",
      ranks);
}

// mpirun passes on what each rank writes in pieces: progress would stand in the middle of the JSON.
constexpr const char* kWithoutProgress = "sh -c 'exec \"$@\" 2>/dev/null' sh ";

std::vector<double> losses_of(const std::string& arguments, int ranks) {
  const Outcome outcome = run_cli(arguments + " --threads 1 --json --no-measure",
                                  kWithoutProgress + (ranks == 1 ? std::string() : mpirun(ranks)));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  const size_t start = outcome.output.find('{');
  if (start == std::string::npos) return {};
  const size_t end = outcome.output.rfind('}');
  const Json json = Json::parse(outcome.output.substr(start, end + 1 - start));
  EXPECT_EQ(json.value("ranks", 1), ranks);
  // A sanitizer's own memory is not predicted.
  if (!plimsoll::kSanitized) {
    EXPECT_LE(json["process_peak_bytes"], json["predicted_peak_bytes"]);
  }
  std::vector<double> losses;
  for (const Json& step : json["steps"]) losses.push_back(step["loss"]);
  return losses;
}

void expect_near(const std::vector<double>& some, const std::vector<double>& others) {
  ASSERT_EQ(some.size(), others.size());
  for (size_t i = 0; i < some.size(); ++i) EXPECT_NEAR(some[i], others[i], 1e-6 * std::abs(others[i])) << i;
}

TEST(CliRanks, TrainAsOneProcessDoes) {
  if (!has_mpi()) GTEST_SKIP() << "no mpirun";
  const std::string train = "train lenet --batch 10 --steps 3 --budget 400MiB --clip 1";
  const std::vector<double> alone = losses_of(train, 1);
  for (const int ranks : {2, 3}) expect_near(losses_of(train, ranks), alone);
  expect_near(losses_of(train + " --shard optimizer", 4), alone);
}

TEST(CliRanks, GiveTheSameBitsTwice) {
  if (!has_mpi()) GTEST_SKIP() << "no mpirun";
  const std::string train = "train gpt2-nano --batch 6 --seq 16 --steps 3 --budget 1GiB";
  EXPECT_EQ(losses_of(train, 3), losses_of(train, 3));
}

// A file of tokens, as drawn by a seed.
void write_tokens(const std::string& path, size_t count, uint16_t vocabulary) {
  std::mt19937 random(7);
  std::vector<uint16_t> tokens(count);
  for (uint16_t& token : tokens) token = static_cast<uint16_t>(random() % vocabulary);
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(tokens.data()), 2 * count);
}

TEST(CliRanks, ReadTheDataThatOneProcessDoes) {
  if (!has_mpi()) GTEST_SKIP() << "no mpirun";
  const plimsoll::TemporaryFolder folder("plimsoll-ranks-");
  const std::string tokens = folder.path() + "/tokens.bin";
  write_tokens(tokens, 1000, 90);
  const std::string train = "train gpt2-nano --batch 7 --seq 16 --steps 12 --budget 1GiB --data " + tokens;
  expect_near(losses_of(train, 3), losses_of(train, 1));
}

// Rank 1 has samples 4 to 7 of each batch of 8, and reads the one that is no token of the vocabulary; nobody else does.
TEST(CliRanks, TellDataThatIsBadOnce) {
  if (!has_mpi()) GTEST_SKIP() << "no mpirun";
  const plimsoll::TemporaryFolder folder("plimsoll-ranks-");
  const std::string tokens = folder.path() + "/tokens.bin";
  write_tokens(tokens, 1000, 90);
  std::fstream(tokens, std::ios::binary | std::ios::in | std::ios::out).seekp(2 * (16 * 13 + 5)).write("\xff\xff", 2);
  const Outcome outcome =
      run_cli("train gpt2-nano --batch 8 --seq 16 --steps 5 --budget 1GiB --no-measure --no-shuffle --data " + tokens,
              mpirun(2));
  EXPECT_EQ(outcome.status, 2) << outcome.output;
  const std::string message = fmt::format("plimsoll: rank 1: {}", tokens);
  const size_t first = outcome.output.find(message);
  ASSERT_NE(first, std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("token 65535 in the sequence here", first), std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find("token 65535", outcome.output.find("token 65535") + 1), std::string::npos)
      << outcome.output;
}

// Sharded state is gathered for the file, which any number of ranks goes on from.
TEST(CliRanks, GoOnFromACheckpointOnOtherNumbersOfRanks) {
  if (!has_mpi()) GTEST_SKIP() << "no mpirun";
  const std::string train = "train lenet --batch 12 --budget 400MiB --steps ";
  const std::vector<double> alone = losses_of(train + "4", 1);
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / fmt::format("plimsoll-ranks-checkpoint-{}", getpid());
  const auto resumed = [&](const std::string& flags, int ranks) {
    fs::remove_all(folder);
    std::vector<double> losses =
        losses_of(fmt::format("{}2 --shard optimizer --checkpoint {}", train, folder.string()), 3);
    const std::string resume = fmt::format("{}4 --checkpoint {} --resume {}", train, folder.string(), flags);
    for (const double loss : losses_of(resume, ranks)) losses.push_back(loss);
    return losses;
  };
  expect_near(resumed("", 1), alone);
  expect_near(resumed("--shard gradients", 2), alone);
  fs::remove_all(folder);
}

// GPT-2's weights are transposed in the file.
TEST(CliRanks, GoOnFromACheckpointOfGpt2) {
  if (!has_mpi()) GTEST_SKIP() << "no mpirun";
  const plimsoll::TemporaryFolder folder("plimsoll-ranks-");
  const std::string train = "train gpt2-nano --seq 16 --batch 4 --budget 400MiB --steps ";
  const std::vector<double> alone = losses_of(train + "4", 1);
  for (const auto& [shard, ranks] : {std::pair("none", 2), std::pair("optimizer", 1)}) {
    const std::string run = fmt::format("{}/{}", folder.path(), shard);
    std::vector<double> losses = losses_of(fmt::format("{}2 --shard {} --checkpoint {}", train, shard, run), 2);
    for (const double loss : losses_of(fmt::format("{}4 --checkpoint {} --resume", train, run), ranks)) {
      losses.push_back(loss);
    }
    expect_near(losses, alone);
  }
}

// Two "hosts" with names and addresses of their own, and a link between them.
TEST(CliRanks, TrainAcrossTwoHosts) {
  if (!has_mpi()) GTEST_SKIP() << "no mpirun";
  const std::string hosts =
      fmt::format("env ASAN_OPTIONS=detect_leaks=0 timeout -k 1 120 {}/tests/cli/two_hosts.sh 1", PLIMSOLL_SOURCE_DIR);
  const Outcome outcome =
      run_cli("train lenet --batch 12 --steps 3 --budget 400MiB --shard optimizer --threads 1 --json --no-measure",
              kWithoutProgress + hosts);
  if (outcome.status == 77) GTEST_SKIP() << outcome.output;
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const size_t start = outcome.output.find('{');
  const Json json = Json::parse(outcome.output.substr(start, outcome.output.rfind('}') + 1 - start));
  EXPECT_EQ(json["ranks"], 2);
  std::vector<double> losses;
  for (const Json& step : json["steps"]) losses.push_back(step["loss"]);
  expect_near(losses, losses_of("train lenet --batch 12 --steps 3 --budget 400MiB", 1));
}

TEST(CliRanks, RefuseOnceForAll) {
  if (!has_mpi()) GTEST_SKIP() << "no mpirun";
  const Outcome outcome = run_cli("train gpt2 --batch 4 --seq 64 --steps 1 --budget 100MiB --no-measure", mpirun(2));
  EXPECT_EQ(outcome.status, 1) << outcome.output;
  const size_t first = outcome.output.find("gpt2 does not fit in 100.00 MiB");
  EXPECT_NE(first, std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find("does not fit", first + 20), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("smallest budget"), std::string::npos) << outcome.output;
}

TEST(CliRanks, TellBadArgumentsOnce) {
  if (!has_mpi()) GTEST_SKIP() << "no mpirun";
  const Outcome outcome = run_cli("train mlp --batch 2 --steps 1", mpirun(3));
  EXPECT_EQ(outcome.status, 2) << outcome.output;
  const std::string message = "a batch of 2 has no sample for each of 3 ranks";
  const size_t first = outcome.output.find(message);
  EXPECT_NE(first, std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find(message, first + 1), std::string::npos) << outcome.output;
}

// Not one that has ended and that nobody has waited for.
bool is_running(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text.substr(name_end + 2, 1) != "Z";
}

// A rank is killed while all train: mpirun ends, and so do the others.
TEST(CliRanks, EndWithinTenSecondsWhenOneIsKilled) {
  if (!has_mpi()) GTEST_SKIP() << "no mpirun";
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / fmt::format("plimsoll-ranks-{}", getpid());
  fs::create_directories(folder);
  const std::string log = (folder / "log").string();
  const std::string command = fmt::format(
      "{} sh -c 'echo $$ > {}/rank$OMPI_COMM_WORLD_RANK; exec {} train mlp --batch 8 --steps 1000000 "
      "--budget 400MiB --threads 1 --no-measure --log {}' > {}/out 2>&1",
      mpirun(3), folder.string(), PLIMSOLL_BINARY, log, folder.string());
  std::thread run([&] { std::system(command.c_str()); });
  for (int i = 0; i < 600 && (!fs::exists(log) || fs::file_size(log) == 0); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  ASSERT_TRUE(fs::exists(log)) << std::ifstream(folder / "out").rdbuf();
  std::vector<pid_t> ranks(3);
  for (size_t i = 0; i < ranks.size(); ++i) std::ifstream(folder / fmt::format("rank{}", i)) >> ranks[i];
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(kill(ranks[1], SIGKILL), 0);
  run.join();
  const auto limit = start + std::chrono::seconds(10);
  const auto any_runs = [&] { return std::any_of(ranks.begin(), ranks.end(), is_running); };
  while (any_runs() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_FALSE(any_runs());
  EXPECT_LT(std::chrono::steady_clock::now(), limit);
  fs::remove_all(folder);
}

// Without a driver, and with a stand-in's one card for two ranks.
TEST(CliRanks, SayWhichCardsAreMissing) {
  if (!has_mpi()) GTEST_SKIP() << "no mpirun";
  const std::string train = "train mlp --batch 8 --steps 1 --device cuda";
  if (dlopen("libcuda.so.1", RTLD_NOW) == nullptr) {
    const Outcome without = run_cli(train, mpirun(2));
    EXPECT_EQ(without.status, 2) << without.output;
    EXPECT_NE(without.output.find("plimsoll: no NVIDIA driver: libcuda.so.1 not found"), std::string::npos)
        << without.output;
  }
  const Outcome one_card = run_cli(train, "env LD_LIBRARY_PATH=" PLIMSOLL_STAND_INS " " + mpirun(2));
  EXPECT_EQ(one_card.status, 2) << one_card.output;
  const std::string message = "plimsoll: ranks 0 and 1 have one card, 0000:1B:00.0 of ";
  const size_t first = one_card.output.find(message);
  ASSERT_NE(first, std::string::npos) << one_card.output;
  EXPECT_EQ(one_card.output.find(message, first + 1), std::string::npos) << "told twice: " << one_card.output;
}

TEST(CliRanks, ShardNothingAlone) {
  const Outcome outcome = run_cli("train mlp --steps 1 --shard optimizer");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.output.find("--shard is for several ranks"), std::string::npos) << outcome.output;
}

Json estimate_of(const std::string& arguments) {
  const Outcome outcome = run_cli("estimate " + arguments + " --json --threads 1");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return Json::parse(outcome.output.substr(outcome.output.find('{')));
}

TEST(CliRanks, AreEstimatedOnPaper) {
  const Json alone = estimate_of("gpt2-nano --batch 4 --optimizer adam");
  const Json ranks = estimate_of("gpt2-nano --batch 1024 --ranks 256 --shard optimizer --link IB");
  ASSERT_EQ(ranks["by_ranks"].size(), 9U);
  const Json& most = ranks["by_ranks"].back();
  EXPECT_EQ(most["ranks"], 256);
  EXPECT_EQ(most["samples"], 4);
  EXPECT_EQ(most["arena_bytes"], ranks["peak_bytes"]);
  EXPECT_LT(ranks["peak_bytes"], alone["peak_bytes"]);
  EXPECT_GT(most["communication_s"], ranks["by_ranks"][1]["communication_s"]);
  EXPECT_EQ(ranks["by_ranks"][0]["communication_s"], 0);
  const int64_t state = alone["total"]["optimizer_state_bytes"];
  EXPECT_NEAR(most["optimizer_state_bytes"].get<double>(), static_cast<double>(state) / 256, 1024);
  const Json on_cards = estimate_of("gpt2-nano --batch 8 --ranks 2 --shard gradients --device cuda:h200 --link NVLink");
  EXPECT_EQ(on_cards["by_ranks"].size(), 2U);
  for (const char* wrong :
       {"--ranks 2000", "--ranks 8 --batch 4", "--ranks 2 --link string", "--ranks 2 --shard all"}) {
    EXPECT_EQ(run_cli(fmt::format("estimate mlp {}", wrong)).status, 2) << wrong;
  }
}

}  // namespace
