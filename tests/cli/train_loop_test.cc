// `plimsoll train` with checkpoints: killed, interrupted and resumed; `plimsoll inspect` of what it wrote.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "tests/cli/process.h"
#include "tests/cli/run.h"
#include "tests/memory/sanitized.h"

namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "plimsoll-train-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Until the run is at its steps.
bool wait_for_lines(const std::string& log, uintmax_t least_bytes) {
  for (int i = 0; i < 6000; ++i) {
    std::error_code error;
    const uintmax_t bytes = fs::file_size(log, error);
    if (!error && bytes >= least_bytes) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

constexpr const char* kTrain =
    "train lenet --batch 8 --threads 1 --no-measure --budget 1GiB --schedule cosine --warmup 5 --clip 1 ";

TEST(CliLoop, KilledAtRandomMomentsEveryResumeWorksAndTheWeightsAreTheSame) {
  const char* asked = std::getenv("PLIMSOLL_KILLS");
  const int kills = asked == nullptr ? 8 : std::atoi(asked);
  const Folder folder;
  const std::string run = fmt::format("{}--steps {} --every 3 --keep 2 ", kTrain, std::max(400, 60 * kills));
  ASSERT_EQ(
      run_cli(fmt::format("{}--checkpoint {} --save {}", run, folder / "whole", folder / "whole.safetensors")).status,
      0);
  std::mt19937 draw(7);
  int killed = 0;
  std::string last;
  for (int i = 0; i < kills; ++i) {
    Process process(words_of(fmt::format("{}--checkpoint {} --resume", run, folder / "run")));
    std::this_thread::sleep_for(std::chrono::milliseconds(draw() % 450));
    process.send(SIGKILL);
    process.wait();
    killed += process.signal() == SIGKILL ? 1 : 0;
    if (!fs::exists(folder / "run/latest")) continue;
    const Outcome inspected = run_cli(fmt::format("inspect {} --json", folder / "run/latest"));
    EXPECT_EQ(inspected.status, 0) << inspected.output;
    last = nlohmann::json::parse(inspected.output)["texts"]["plimsoll.step"];
  }
  const Outcome end =
      run_cli(fmt::format("{}--checkpoint {} --resume --save {}", run, folder / "run", folder / "run.safetensors"));
  EXPECT_EQ(end.status, 0) << end.output;
  EXPECT_GT(killed, 0) << "every run had ended before it was killed";
  EXPECT_EQ(bytes_of(folder / "run.safetensors"), bytes_of(folder / "whole.safetensors"));
  EXPECT_EQ(bytes_of(folder / "run/latest"), bytes_of(folder / "whole/latest"));
  RecordProperty("killed", killed);
  RecordProperty("last_step_before_the_end", last);
}

TEST(CliLoop, CtrlCIsAcknowledgedAndLeavesACheckpoint) {
  const Folder folder;
  Process process(
      words_of(fmt::format("{}--steps 100000 --checkpoint {} --log {}", kTrain, folder / "run", folder / "log")));
  ASSERT_TRUE(wait_for_lines(folder / "log", 1));
  process.send(SIGINT);
  process.wait();
  EXPECT_EQ(process.status(), 130) << process.err;
  EXPECT_NE(process.err.find("stops after this step"), std::string::npos) << process.err;
  EXPECT_NE(process.err.find("--resume"), std::string::npos) << process.err;
  EXPECT_TRUE(fs::exists(folder / "run/latest"));
  const auto json = nlohmann::json::parse(run_cli(fmt::format("inspect {} --json", folder / "run")).output);
  const int64_t step = std::stoll(json["texts"]["plimsoll.step"].get<std::string>());
  const Outcome more = run_cli(fmt::format("{}--steps {} --checkpoint {} --resume", kTrain, step + 2, folder / "run"));
  EXPECT_EQ(more.status, 0) << more.output;
  EXPECT_NE(more.output.find(fmt::format("goes on after step {} ", step)), std::string::npos) << more.output;
}

TEST(CliLoop, SigtermLeavesACheckpointAndItsStatus) {
  const Folder folder;
  Process process(
      words_of(fmt::format("{}--steps 100000 --checkpoint {} --log {}", kTrain, folder / "run", folder / "log")));
  ASSERT_TRUE(wait_for_lines(folder / "log", 1));
  process.send(SIGTERM);
  process.wait();
  EXPECT_EQ(process.status(), 143) << process.err;
  EXPECT_TRUE(fs::exists(folder / "run/latest"));
}

TEST(CliLoop, TwoInterruptsEndItAtOnce) {
  const Folder folder;
  Process process(
      words_of(fmt::format("train lenet --batch 8192 --steps 1000 --no-measure --threads 1 --checkpoint {} --log {}",
                           folder / "run", folder / "log")));
  ASSERT_TRUE(wait_for_lines(folder / "log", 0));
  const auto start = std::chrono::steady_clock::now();
  process.send(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  process.send(SIGINT);
  process.wait();
  EXPECT_EQ(process.signal(), SIGINT) << process.err;
  EXPECT_NE(process.err.find("stops after this step"), std::string::npos) << process.err;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

// u8 images in which each sample is of its own shade, as numpy.save writes them, and their labels.
void write_samples(const std::string& folder, int count) {
  fs::create_directories(folder);
  const auto write = [&](const std::string& name, const std::string& shape, const std::string& values) {
    std::string header = fmt::format("{{'descr': '|u1', 'fortran_order': False, 'shape': {}, }}", shape);
    header.resize(117, ' ');
    std::ofstream(folder + "/" + name, std::ios::binary)
        << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header << '\n'
        << values;
  };
  std::string pixels;
  std::string labels;
  for (int i = 0; i < count; ++i) {
    pixels.append(784, static_cast<char>(i % 251));
    labels += static_cast<char>(i % 10);
  }
  write("x.npy", fmt::format("({}, 1, 28, 28)", count), pixels);
  write("y.npy", fmt::format("({},)", count), labels);
}

TEST(CliLoop, CtrlCDoesNotWaitForTheMicroBatchesOfAStep) {
  if (plimsoll::kSanitized) GTEST_SKIP() << "a sanitizer's own memory grows as it likes";
  const Folder folder;
  write_samples(folder / "data", 3000);
  const std::string run = fmt::format(
      "train lenet --data {} --batch 1024 --budget 40MiB --threads 1 --no-measure --schedule cosine --steps 4 "
      "--checkpoint ",
      folder / "data");
  const Outcome whole = run_cli(fmt::format("{}{} --json", run, folder / "whole"));
  ASSERT_EQ(whole.status, 0) << whole.output;
  EXPECT_GT(nlohmann::json::parse(whole.output.substr(whole.output.find('{')))["micro_batches"].size(), 3U);
  Process process(words_of(fmt::format("{}{} --log {}", run, folder / "run", folder / "log")));
  ASSERT_TRUE(wait_for_lines(folder / "log", 1));
  process.send(SIGINT);
  process.wait();
  EXPECT_EQ(process.status(), 130) << process.err;
  const Outcome more = run_cli(fmt::format("{}{} --resume", run, folder / "run"));
  EXPECT_EQ(more.status, 0) << more.output;
  EXPECT_EQ(bytes_of(folder / "run/latest"), bytes_of(folder / "whole/latest"));
}

// Bytes that the pipeline of a run may have at its end.
int64_t data_bytes_planned(const std::string& profile) {
  return nlohmann::json::parse(bytes_of(profile))["plimsoll"]["data"]["planned_bytes"];
}

TEST(CliLoop, BuffersOfDataGoWithTheBudget) {
  if (plimsoll::kSanitized) GTEST_SKIP() << "a sanitizer's own memory grows as it likes";
  const Folder folder;
  write_samples(folder / "data", 4096);
  const auto train = [&](const std::string& name, int steps) {
    return fmt::format(
        "train lenet --data {} --batch 512 --budget 300MiB --steps {} --threads 1 --no-measure --profile {} --log {}",
        folder / "data", steps, folder / name, folder / (name + ".log"));
  };
  ASSERT_EQ(run_cli(train("whole", 1)).status, 0);
  std::ofstream(folder / "budget") << "300MiB";
  Process process(words_of(fmt::format("{} --budget-file {}", train("cut", 24), folder / "budget")));
  ASSERT_TRUE(wait_for_lines(folder / "cut.log", 1));
  std::ofstream(folder / "budget") << "44MiB";
  process.wait();
  EXPECT_EQ(process.status(), 0) << process.err;
  EXPECT_LT(data_bytes_planned(folder / "cut"), data_bytes_planned(folder / "whole"));
  EXPECT_GT(data_bytes_planned(folder / "cut"), 2 * 512 * 784);
}

TEST(CliLoop, ABudgetThatIsTooSmallLeavesACheckpoint) {
  const Folder folder;
  std::ofstream(folder / "budget") << "1GiB";
  Process process(words_of(fmt::format("{}--steps 100000 --checkpoint {} --budget-file {} --log {}", kTrain,
                                       folder / "run", folder / "budget", folder / "log")));
  ASSERT_TRUE(wait_for_lines(folder / "log", 1000));
  std::ofstream(folder / "budget") << "1MiB";
  process.wait();
  EXPECT_EQ(process.status(), 1) << process.err;
  EXPECT_NE(process.err.find("does not fit in 1.00 MiB"), std::string::npos) << process.err;
  const Outcome kept = run_cli(fmt::format("inspect {} --json", folder / "run"));
  ASSERT_EQ(kept.status, 0) << kept.output;
  const auto lines = bytes_of(folder / "log");
  const std::string step = nlohmann::json::parse(kept.output)["texts"]["plimsoll.step"];
  EXPECT_NE(lines.find(fmt::format("{{\"step\":{},\"epoch\"", step)), std::string::npos) << step;
  EXPECT_EQ(lines.find(fmt::format("{{\"step\":{},\"epoch\"", std::stoll(step) + 1)), std::string::npos) << step;
}

// The words of a text, line by line and as a whole, with what can be said of data on the command line.
TEST(CliLoop, TrainsOnTextAndImagesAsToldOnTheCommandLine) {
  const Folder folder;
  std::ofstream text(folder / "t.txt");
  for (int i = 0; i < 40; ++i) text << "the quick brown fox " << i << " jumps\n";
  text.close();
  const std::string gpt = "train gpt2-nano --seq 16 --batch 4 --threads 1 --no-measure --json ";
  for (const char* data : {"{}", "lines:{}"}) {
    const std::string path = fmt::format(fmt::runtime(data), folder / "t.txt");
    const Outcome outcome =
        run_cli(fmt::format("{}--data {} --epochs 1 --take 22 --fill-last --cache 64KiB", gpt, path));
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_NE(outcome.output.find("\"steps_done\": 6"), std::string::npos) << outcome.output;
  }
  write_samples(folder / "images", 40);
  const std::string lenet = "train lenet --batch 8 --epochs 1 --threads 1 --no-measure --json ";
  const auto losses = [&](const std::string& options) {
    const Outcome outcome = run_cli(fmt::format("{}--data {} {}", lenet, folder / "images", options));
    EXPECT_EQ(outcome.status, 0) << options << outcome.output;
    std::vector<double> found;
    const auto json = nlohmann::json::parse(outcome.output.substr(outcome.output.find("\n{") + 1));
    for (const auto& step : json["steps"]) found.push_back(step["loss"]);
    return found;
  };
  const std::vector<double> plain = losses("");
  EXPECT_EQ(plain.size(), 5U);
  EXPECT_EQ(losses(fmt::format("--cache {} --shuffle-buffer 40", folder / "images")).size(), 5U);
  for (const char* changes : {"--crop 4", "--mean 0.5 --std 0.25", "--no-shuffle"}) EXPECT_NE(losses(changes), plain);
  EXPECT_EQ(losses("--crop 4 --flip --seed 3"), losses("--crop 4 --flip --seed 3 --workers 2"));
  EXPECT_EQ(losses("--unordered").size(), 5U);
  write_samples(folder / "bad", 12);
  std::fstream(folder / "bad/y.npy", std::ios::binary | std::ios::in | std::ios::out).seekp(-1, std::ios::end).put(77);
  const Outcome skipped =
      run_cli(fmt::format("{}--data {} --eval-data {} --skip-corrupt", lenet, folder / "images", folder / "bad"));
  EXPECT_EQ(skipped.status, 0) << skipped.output;
  EXPECT_NE(skipped.output.find("1 samples of the evaluation could not be read"), std::string::npos) << skipped.output;
  const Outcome wrong = run_cli(fmt::format("{}--data {} --epochs 1 --mean 1,x", gpt, folder / "t.txt"));
  EXPECT_EQ(wrong.status, 2);
  EXPECT_NE(wrong.output.find("--mean is '1,x', expected numbers"), std::string::npos) << wrong.output;
}

// Files may not grow from the first checkpoint on.
TEST(CliLoop, ADiskThatIsFullIsToldAndTheRunGoesOn) {
  const Folder folder;
  Process process(words_of(
      fmt::format("{}--steps 600 --every 20 --json --checkpoint {} --log {}", kTrain, folder / "run", folder / "log")));
  ASSERT_TRUE(wait_for_lines(folder / "run/latest", 1));
  const rlimit small{4096, RLIM_INFINITY};
  ASSERT_EQ(prlimit(process.pid(), RLIMIT_FSIZE, &small, nullptr), 0);
  process.wait();
  EXPECT_EQ(process.status(), 0) << process.err;
  EXPECT_NE(process.err.find("no checkpoint of step 600: "), std::string::npos) << process.err;
  EXPECT_NE(process.err.find("the run goes on, and earlier checkpoints stay"), std::string::npos) << process.err;
  EXPECT_NE(process.err.find("the log lacks lines: "), std::string::npos) << process.err;
  const auto found = nlohmann::json::parse(process.out);
  EXPECT_EQ(found["steps_done"], 600);
  EXPECT_GT(found["failed_checkpoints"], 0);
  const auto kept = nlohmann::json::parse(run_cli(fmt::format("inspect {} --json", folder / "run")).output);
  EXPECT_LT(std::stoll(kept["texts"]["plimsoll.step"].get<std::string>()), 600);
}

TEST(CliLoop, TheBudgetMayBeAnotherWhenItIsResumed) {
  const Folder folder;
  const std::string run = "train lenet --batch 256 --threads 1 --no-measure --every 2 ";
  ASSERT_EQ(run_cli(fmt::format("{}--budget 1GiB --steps 4 --checkpoint {}", run, folder / "whole")).status, 0);
  ASSERT_EQ(run_cli(fmt::format("{}--budget 1GiB --steps 2 --checkpoint {}", run, folder / "run")).status, 0);
  const Outcome less =
      run_cli(fmt::format("{}--budget 256MiB --steps 4 --checkpoint {} --resume", run, folder / "run"));
  EXPECT_EQ(less.status, 0) << less.output;
  EXPECT_EQ(bytes_of(folder / "run/latest"), bytes_of(folder / "whole/latest"));
}

TEST(CliLoop, ACheckpointOfAnotherModelIsRefused) {
  const Folder folder;
  ASSERT_EQ(run_cli(fmt::format("train lenet --batch 2 --steps 1 --no-measure --checkpoint {}", folder / "run")).status,
            0);
  const Outcome other =
      run_cli(fmt::format("train mlp --batch 2 --steps 2 --no-measure --checkpoint {} --resume", folder / "run"));
  EXPECT_EQ(other.status, 2) << other.output;
  EXPECT_NE(other.output.find("(lenet, adam)"), std::string::npos) << other.output;
  const Outcome again =
      run_cli(fmt::format("train lenet --batch 2 --steps 2 --no-measure --checkpoint {}", folder / "run"));
  EXPECT_EQ(again.status, 2);
  EXPECT_NE(again.output.find("resume it (--resume)"), std::string::npos) << again.output;
}

// The order of the data would be of another seed than what it goes on from.
TEST(CliLoop, AnotherSeedIsRefusedWhereItIsResumed) {
  const Folder folder;
  const std::string run = fmt::format("train lenet --batch 2 --no-measure --checkpoint {} ", folder / "run");
  ASSERT_EQ(run_cli(run + "--steps 1 --seed 5").status, 0);
  const Outcome other = run_cli(run + "--steps 2 --resume");
  EXPECT_EQ(other.status, 2) << other.output;
  EXPECT_NE(other.output.find("resume it with --seed 5"), std::string::npos) << other.output;
  EXPECT_EQ(run_cli(run + "--steps 2 --resume --seed 5").status, 0);
}

TEST(CliLoop, WeightsOfACheckpointStartAnotherRun) {
  const Folder folder;
  ASSERT_EQ(run_cli(fmt::format("train lenet --batch 2 --steps 2 --no-measure --checkpoint {}", folder / "run")).status,
            0);
  const Outcome outcome = run_cli(fmt::format("run lenet --batch 2 --times 1 --weights {}/latest", folder / "run"));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST(CliInspect, ListsTensorsAndTexts) {
  const Folder folder;
  ASSERT_EQ(run_cli(fmt::format("train mlp --batch 2 --steps 1 --save {}", folder / "w.safetensors")).status, 0);
  const Outcome table = run_cli(fmt::format("inspect {}", folder / "w.safetensors"));
  EXPECT_EQ(table.status, 0);
  for (const char* part : {"tensors, ", "format = pt", "name ", "F32", ".weight"}) {
    EXPECT_NE(table.output.find(part), std::string::npos) << part << "\n" << table.output;
  }
  const auto json = nlohmann::json::parse(run_cli(fmt::format("inspect {} --json", folder / "w.safetensors")).output);
  int64_t bytes = 0;
  for (const auto& tensor : json["tensors"]) bytes += tensor["bytes"].get<int64_t>();
  EXPECT_EQ(json["tensor_bytes"], bytes);
  std::ofstream(folder / "bad.safetensors") << "no such file";
  const Outcome bad = run_cli(fmt::format("inspect {}", folder / "bad.safetensors"));
  EXPECT_EQ(bad.status, 2);
  EXPECT_NE(bad.output.find("a whole safetensors file"), std::string::npos) << bad.output;
}

}  // namespace
