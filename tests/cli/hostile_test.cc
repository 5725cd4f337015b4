// What goes wrong around a process: closed descriptors, full disks, signals, limits, nonsense.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/cli/process.h"
#include "tests/memory/sanitized.h"
#include "tests/memory/temp_folder.h"

namespace {

using plimsoll::TempFolder;
using Arguments = std::vector<std::string>;
using Json = nlohmann::json;

constexpr const char* kTrace = PLIMSOLL_SOURCE_DIR "/tests/data/traces/widecnn_b32.csv.gz";

std::string text_of(const Arguments& arguments) {
  std::string text;
  for (const std::string& argument : arguments) text += argument + " ";
  return text;
}

std::string read(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void send_stdout_to(const char* path) { dup2(open(path, O_WRONLY), STDOUT_FILENO); }

void limit_file_sizes(rlim_t bytes) {
  const rlimit limit{bytes, bytes};
  setrlimit(RLIMIT_FSIZE, &limit);
}

std::vector<float> losses_of(const std::string& output) {
  std::vector<float> losses;
  const Json json = Json::parse(output);
  for (const Json& step : json["steps"]) losses.push_back(step["loss"]);
  return losses;
}

TEST(CliDescriptors, ThatAreClosedChangeNoNumber) {
  const Arguments train = {"train", "lenet", "--batch", "16", "--steps", "3", "--json", "--threads", "1"};
  Process open(train);
  const std::vector<float> expected = losses_of(open.wait().out);
  ASSERT_EQ(expected.size(), 3U);
  for (const std::vector<int>& closed : {std::vector<int>{2}, {0}, {1}, {0, 2}, {0, 1, 2}}) {
    Process process(train, [&] {
      for (const int fd : closed) close(fd);
    });
    EXPECT_EQ(process.wait().status(), 0) << closed.size() << " closed, the first " << closed[0];
    if (process.out.empty()) continue;  // it is among the closed
    EXPECT_EQ(losses_of(process.out), expected);
  }
}

TEST(CliOutput, ToAFullDeviceIsAnErrorOfEveryVerb) {
  const std::string buffers = TempFolder().path() + ".csv";
  std::ofstream(buffers) << "id,lower,upper,size\na,0,2,10\n";
  for (const Arguments& arguments :
       {Arguments{"models"},
        {"models", "--json"},
        {"tensor", "3x4"},
        {"tensor", "3x4", "--json"},
        {"--help"},
        {"--version"},
        {"train", "--help"},
        {"estimate", "lenet"},
        {"estimate", "lenet", "--json"},
        {"plan", "lenet", "--batch", "2", "--budget", "1GiB"},
        {"plan", "lenet", "--batch", "2", "--budget", "1KiB", "--json", "--time-limit", "1"},
        {"run", "mlp", "--batch", "1", "--threads", "1"},
        {"train", "mlp", "--batch", "1", "--steps", "1", "--threads", "1"},
        {"train", "mlp", "--batch", "1", "--steps", "1", "--json", "--threads", "1"},
        {"replay", kTrace},
        {"explain", kTrace},
        {"pack", buffers},
        {"tensor", "x", "--json"}}) {
    Process process(arguments, [] { send_stdout_to("/dev/full"); });
    EXPECT_EQ(process.wait().status(), 2) << text_of(arguments) << process.err;
    EXPECT_NE(process.err.find("writing to standard output failed: No space left"), std::string::npos)
        << text_of(arguments) << process.err;
  }
  std::filesystem::remove(buffers);
}

TEST(CliOutput, ToAFullStderrStopsNoTraining) {
  Process process({"train", "mlp", "--batch", "1", "--steps", "2", "--threads", "1"},
                  [] { dup2(open("/dev/full", O_WRONLY), STDERR_FILENO); });
  EXPECT_EQ(process.wait().status(), 0);
  EXPECT_NE(process.out.find("2 steps"), std::string::npos);
}

TEST(CliOutput, ToAClosedPipeEndsAsUnixToolsDo) {
  const auto close_reader = [] {
    int ends[2];
    if (pipe(ends) != 0) _exit(1);
    close(ends[0]);
    dup2(ends[1], STDOUT_FILENO);
  };
  Process process({"models"}, [&] {
    signal(SIGPIPE, SIG_DFL);
    close_reader();
  });
  EXPECT_EQ(process.wait().signal(), SIGPIPE);
  Process ignoring({"models"}, [&] {
    signal(SIGPIPE, SIG_IGN);
    close_reader();
  });
  EXPECT_EQ(ignoring.wait().status(), 2);
  EXPECT_NE(ignoring.err.find("Broken pipe"), std::string::npos) << ignoring.err;
}

TEST(CliSignals, EndLongWorkAtOnceWithTheRightStatus) {
  const TempFolder folder;
  ASSERT_EQ(mkfifo((folder.path() + "/fifo").c_str(), 0600), 0);
  for (const Arguments& arguments :
       {Arguments{"plan", "gpt2-xl", "--budget", "1GiB", "--time-limit", "60", "-o", folder.path() + "/plan.json"},
        {"train", "gpt2-large", "--batch", "1", "--seq", "64", "--steps", "1", "--budget", "12GiB"},
        {"train", "resnet18", "--batch", "2", "--steps", "10000", "--threads", "1"},
        {"explain", folder.path() + "/fifo"}}) {
    for (const int signal : {SIGTERM, SIGINT}) {
      Process process(arguments, [] { ::signal(SIGINT, SIG_DFL); });
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
      const auto sent = std::chrono::steady_clock::now();
      process.send(signal);
      process.wait();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - sent;
      EXPECT_EQ(process.signal(), signal) << text_of(arguments) << process.status() << process.err;
      EXPECT_NE(process.err.find(signal == SIGINT ? "interrupted" : "terminated"), std::string::npos)
          << text_of(arguments) << process.err;
      EXPECT_LT(took.count(), 1) << text_of(arguments);
    }
  }
  const auto left = std::distance(std::filesystem::directory_iterator(folder.path()), {});
  EXPECT_EQ(left, 1);  // the FIFO
}

TEST(CliSignals, ThatWereIgnoredStaySo) {
  Process process({"train", "lenet", "--batch", "16", "--steps", "100", "--threads", "1"},
                  [] { signal(SIGINT, SIG_IGN); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  process.send(SIGINT);
  EXPECT_EQ(process.wait().status(), 0) << process.err;
}

TEST(CliLimits, OfFileSizesAreErrors) {
  for (const rlim_t bytes : {0, 1 << 20}) {
    Process process({"train", "mlp", "--batch", "4", "--steps", "1", "--json", "--threads", "1"},
                    [&] { limit_file_sizes(bytes); });
    EXPECT_NE(process.wait().status(), 0);
    EXPECT_EQ(process.signal(), 0);
    EXPECT_NE(process.err.find("File too large"), std::string::npos) << process.err;
    EXPECT_TRUE(Json::parse(process.out).contains("error"));
  }
}

TEST(CliFiles, ThatCannotBeWrittenLeaveTheOldOnes) {
  const TempFolder folder;
  const std::string buffers = folder.path() + "/buffers.csv";
  std::ofstream rows(buffers);
  rows << "id,lower,upper,size\n";
  for (int i = 0; i < 1000; ++i) rows << i << "," << i << "," << i + 2 << ",64\n";
  rows.close();
  const std::string output = folder.path() + "/out";
  for (const Arguments& arguments : {Arguments{"pack", buffers, "-o", output},
                                     {"explain", kTrace, "--html", output},
                                     {"explain", kTrace, "--chrome-trace", output},
                                     {"plan", "lenet", "--batch", "2", "--budget", "1GiB", "-o", output}}) {
    std::ofstream(output) << "old";
    Process process(arguments, [] { limit_file_sizes(64); });
    EXPECT_EQ(process.wait().status(), 2) << text_of(arguments) << process.err;
    EXPECT_EQ(read(output), "old") << text_of(arguments);
    std::filesystem::remove(output);
    Process anew(arguments, [] { limit_file_sizes(64); });
    EXPECT_EQ(anew.wait().status(), 2);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << text_of(arguments);
  }
}

TEST(CliFiles, AreReplacedBehindLinksAndWrittenToInPlaceElsewhere) {
  const TempFolder folder;
  std::filesystem::create_symlink("real", folder.path() + "/link");
  Process plan({"plan", "lenet", "--batch", "2", "--budget", "1GiB", "-o", folder.path() + "/link"});
  EXPECT_EQ(plan.wait().status(), 0) << plan.err;
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path() + "/link"));
  EXPECT_TRUE(Json::parse(read(folder.path() + "/real")).contains("setting"));
  Process both({"plan", "lenet", "--batch", "2", "--budget", "1GiB", "--json", "-o", "/dev/stdout"});
  EXPECT_EQ(both.wait().status(), 0) << both.err;
  const size_t second = both.out.find("\n{\n");
  ASSERT_NE(second, std::string::npos);
  EXPECT_TRUE(Json::parse(both.out.substr(0, second)).contains("programs"));
  EXPECT_TRUE(Json::parse(both.out.substr(second)).contains("fits"));
}

struct Nonsense {
  Arguments arguments;
  std::string says;
};

TEST(CliArguments, ThatMakeNoSenseAreRefusedBeforeAnythingIsTaken) {
  const TempFolder folder;
  const std::string& path = folder.path();
  folder.write("empty", "");
  folder.write("nonsense", "lots\n");
  folder.write("zero", "0");
  ASSERT_EQ(mkfifo((path + "/fifo").c_str(), 0600), 0);
  std::vector<Nonsense> all = {{{"--budget", ""}, "--budget: expected a value, found none"},
                               {{"--budget="}, "--budget: expected a value, found none"},
                               {{"--budget", "lots"}, "'lots' is not a size"},
                               {{"--budget", "0"}, "--budget is zero"},
                               {{"--budget", "-1"}, "not a size"},
                               {{"--budget", "nan"}, "not a size"},
                               {{"--lr", "nan"}, "expected a finite number, found 'nan'"},
                               {{"--lr", "inf"}, "expected a finite number, found 'inf'"},
                               {{"--lr", "1e999"}, "expected a finite number"},
                               {{"--lr", "-0.1"}, "expected 0 to"},
                               {{"--lr", "1e-3x"}, "expected a finite number"},
                               {{"--batch-size", "1.5"}, "expected a whole number"},
                               {{"--batch", "99999999999999999999"}, "expected a whole number"},
                               {{"--batch", "0x10"}, "expected a whole number"},
                               {{"--seed", "-1"}, "expected a whole number, not negative"},
                               {{"--steps", ""}, "expected a value"},
                               {{"--optimizer", ""}, "expected a value"},
                               {{"--bugdet", "1GiB"}, "did you mean --budget"}};
  for (const char* file : {"empty", "nonsense", "zero", "fifo", "missing", "."}) {
    all.push_back({{"--budget", "1GiB", "--budget-file", path + "/" + file}, file[0] == '.' ? "folder" : file});
  }
  all.push_back({{"--budget", "1GiB", "--budget-file", "/dev/zero"}, "a device"});
  for (const Nonsense& nonsense : all) {
    Arguments arguments = {"train", "mlp", "--steps", "1"};
    arguments.insert(arguments.end(), nonsense.arguments.begin(), nonsense.arguments.end());
    Process process(arguments);
    EXPECT_EQ(process.wait().status(), 2) << text_of(arguments) << process.err;
    EXPECT_NE(process.err.find(nonsense.says), std::string::npos) << text_of(arguments) << process.err;
    EXPECT_EQ(process.err.find("step 1"), std::string::npos) << text_of(arguments);
  }
}

TEST(CliArguments, OfOtherVerbsAreCheckedAlike) {
  for (const Nonsense& nonsense : {Nonsense{{"plan", "mlp", "--budget", "1GiB", "--time-limit", "nan"}, "finite"},
                                   {{"plan", "mlp", "--budget", "1GiB", "--time-limit", "-1"}, "expected 0 to"},
                                   {{"plan", "mlp", "--budget", "1GiB", "-o", ""}, "expected a value"},
                                   {{"plan", "--check", ""}, "expected a value"},
                                   {{"pack", "x.csv", "--time-limit", "nan"}, "finite"},
                                   {{"pack", "x.csv", "--threads", "0"}, "expected 1 to 256"},
                                   {{"pack", "x.csv", "--capacity", ""}, "expected a value"},
                                   {{"replay", kTrace, "--capacity", ""}, "expected a value"},
                                   {{"explain", ""}, "expected a value"},
                                   {{"trian", "mlp"}, "there is no verb 'trian'; did you mean train? "},
                                   {{"explian", "x"}, "did you mean explain? "},
                                   {{}, "a verb is missing"},
                                   {{"plan", "mlp", "--no-recompte"}, "did you mean --no-recompute? "},
                                   {{"exec", "--budget", "0", "--", "true"}, "a budget must be more than nothing"},
                                   {{"exec", "--"}, "COMMAND is required"},
                                   {{"replay", kTrace, "--page", "1TiB"}, "from 256 to 1 GiB"}}) {
    Process process(nonsense.arguments);
    EXPECT_EQ(process.wait().status(), 2) << text_of(nonsense.arguments) << process.err;
    EXPECT_NE(process.err.find(nonsense.says), std::string::npos) << text_of(nonsense.arguments) << process.err;
  }
}

// What would be left out in silence, a file that is not written above all.
TEST(CliArguments, ThatWouldDoNothingAreRefused) {
  for (const Nonsense& nonsense :
       {Nonsense{{"estimate", "mlp", "--gpu", "l4"}, "--gpu, --steps and --fake-data are for a script"},
        {{"estimate", "mlp", "--steps", "3"}, "are for a script"},
        {{"estimate", "mlp", "--budget", "1GiB"}, "`plimsoll plan mlp --budget 1GiB`"},
        {{"estimate", "mlp", "--by", "module", "--dot", "/nowhere/x"}, "prints a table"},
        {{"estimate", "mlp", "--by", "module", "--html", "/nowhere/x"}, "prints a table"},
        {{"estimate", "--dot", "/nowhere/x", "--", "true"}, "not for a script"},
        {{"plan", "mlp", "--budget", "1GiB", "--max-batch", "-o", "/nowhere/x"}, "of a plan that is made"},
        {{"plan", "mlp", "--budget", "1GiB", "--max-batch", "--dot", "/nowhere/x"}, "of a plan that is made"},
        {{"plan", "--check", "/nowhere/x", "--budget", "1GiB"}, "--check takes the budget from the plan's file"}}) {
    Process process(nonsense.arguments);
    EXPECT_EQ(process.wait().status(), 2) << text_of(nonsense.arguments) << process.err;
    EXPECT_NE(process.err.find(nonsense.says), std::string::npos) << text_of(nonsense.arguments) << process.err;
  }
}

TEST(CliJson, OfAnotherProgramsCommandLineIsNotOurs) {
  Process process({"exec", "--events", "0", "--", "true", "--json"});
  EXPECT_EQ(process.wait().status(), 2) << process.err;
  EXPECT_EQ(process.out, "");
}

TEST(CliJson, IsPrintedForErrorsAndRefusalsToo) {
  const auto json_of = [](const Arguments& arguments, int status) {
    Process process(arguments);
    EXPECT_EQ(process.wait().status(), status) << text_of(arguments) << process.err;
    return Json::parse(process.out);
  };
  const Json refused = json_of({"train", "lenet", "--batch", "2", "--budget", "1MiB", "--json"}, 1);
  EXPECT_EQ(refused["fits"], false);
  EXPECT_GT(refused["smallest_budget_bytes"], 1 << 20);
  EXPECT_TRUE(refused["alternatives"].is_array());
  EXPECT_EQ(json_of({"train", "nonsense", "--json"}, 2)["kind"], "argument");
  EXPECT_EQ(json_of({"train", "mlp", "--lr", "nan", "--json"}, 2)["exit_status"], 2);
  EXPECT_EQ(json_of({"replay", "/nowhere", "--json"}, 2)["kind"], "system");
  EXPECT_EQ(json_of({"plan", "gpt2", "--budget", "1MiB", "--max-batch", "--json"}, 1)["fits"], false);
  const TempFolder folder;
  const std::string plan = folder.path() + "/plan\xff.json";  // no UTF-8
  json_of({"plan", "lenet", "--batch", "2", "--budget", "1GiB", "--json", "-o", plan}, 0);
  const Json checked = json_of({"plan", "--check", plan, "--json"}, 0);
  EXPECT_EQ(checked["holds"], true);
  EXPECT_EQ(checked["model"], "lenet");
  std::ofstream(plan) << "{\n \"a\": ,";
  const Json error = json_of({"plan", "--check", plan, "--json"}, 2);
  EXPECT_EQ(error["kind"], "input");
  EXPECT_NE(error["error"].get<std::string>().find(":2:7: found ',', expected JSON"), std::string::npos) << error;
  const std::string lock = folder.path() + "/lock";
  EXPECT_GT(json_of({"plan", "lenet", "--manifest", lock, "--json"}, 0)["unplanned_bytes"], 0);
  EXPECT_EQ(json_of({"plan", "lenet", "--check-manifest", lock, "--json"}, 0)["grown"], false);
}

TEST(CliPlanFiles, ThatAreDamagedAreToldInOurWords) {
  const TempFolder folder;
  const std::string path = folder.path() + "/plan.json";
  Process plan({"plan", "lenet", "--batch", "2", "--budget", "1GiB", "-o", path});
  ASSERT_EQ(plan.wait().status(), 0) << plan.err;
  const std::string whole = read(path);
  const auto check = [&](const std::string& text) {
    std::ofstream(path) << text;
    Process process({"plan", "--check", path});
    EXPECT_EQ(process.wait().status(), 2) << process.out;
    EXPECT_EQ(process.err.find("json.exception"), std::string::npos) << process.err;
    EXPECT_NE(process.err.find(path), std::string::npos) << process.err;
    return process.err;
  };
  check(whole.substr(0, whole.size() / 2));
  check("");
  check("[]");
  check(std::string(whole).replace(whole.find("\"setting\""), 9, "\"se\xff\xffing\""));
  check(std::string(whole).replace(whole.find("\"budget_bytes\": ") + 16, 1, "1e999"));
  check(std::string(whole).replace(whole.find("\"budget_bytes\": ") + 16, 1, "\"9\""));
  const size_t scratch = whole.find("\"scratch_at_bytes\": 0");
  ASSERT_NE(scratch, std::string::npos);
  const std::string told = check(std::string(whole).replace(scratch + 20, 1, "123456789012345"));
  EXPECT_NE(told.find("scratch at 123456789012345"), std::string::npos) << told;
}

// JSON cannot hold the name of such a file.
TEST(CliPlanFiles, OfModelsWhoseNamesAreNoTextAreRefused) {
  const TempFolder folder;
  const std::string model = folder.path() + "/mlp\xff.onnx";
  Process exported({"export", "mlp", "--batch", "1", "-o", model});
  ASSERT_EQ(exported.wait().status(), 0) << exported.err;
  for (const char* option : {"-o", "--manifest"}) {
    Process process({"plan", model, "--budget", "1GiB", option, folder.path() + "/written.json"});
    EXPECT_EQ(process.wait().status(), 2) << process.err;
    EXPECT_NE(process.err.find("rename the model's file"), std::string::npos) << process.err;
  }
}

TEST(CliTimeLimit, HoldsForRefusalsAndTheirAlternatives) {
  const auto seconds_of = [](const Arguments& arguments) {
    rusage before{};
    getrusage(RUSAGE_CHILDREN, &before);
    Process process(arguments);
    EXPECT_EQ(process.wait().status(), 1) << process.err;
    EXPECT_NE(process.err.find("cut short"), std::string::npos) << process.err;
    rusage after{};
    getrusage(RUSAGE_CHILDREN, &after);
    return static_cast<double>(after.ru_utime.tv_sec - before.ru_utime.tv_sec) +
           1e-6 * static_cast<double>(after.ru_utime.tv_usec - before.ru_utime.tv_usec);
  };
  // Of processor time, which others on the machine do not change; without the limit it is many times as much.
  EXPECT_LT(seconds_of({"plan", "gpt2-xl", "--budget", "1GiB", "--time-limit", "0.1"}), 6);
}

TEST(CliTimeLimit, ThatCutsTheSearchForTheLargestBatchIsTold) {
  const auto is_cut_short = [](const Arguments& arguments) {
    Process process(arguments);
    EXPECT_EQ(process.wait().status(), 0) << process.err;
    return Json::parse(process.out)["cut_short"].get<bool>();
  };
  EXPECT_TRUE(is_cut_short({"plan", "resnet50", "--budget", "2GiB", "--max-batch", "--json", "--time-limit", "1"}));
  EXPECT_FALSE(is_cut_short({"plan", "mlp", "--budget", "10MiB", "--max-batch", "--json", "--time-limit", "600"}));
}

TEST(CliBudgetFile, ACutIsToldBesideThePeakSinceThen) {
  if (plimsoll::kSanitized) GTEST_SKIP() << "a sanitizer's own memory grows as it likes";
  const TempFolder folder;
  const std::string file = folder.path() + "/budget";
  std::ofstream(file) << "400MiB";
  Process process({"train", "lenet", "--batch", "300", "--optimizer", "sgd", "--steps", "40", "--threads", "1",
                   "--json", "--budget", "400MiB", "--budget-file", file, "--spill-dir", PLIMSOLL_SOURCE_DIR,
                   "--no-measure"});
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  std::ofstream(file + ".new") << "56MiB";
  std::filesystem::rename(file + ".new", file);
  ASSERT_EQ(process.wait().status(), 0) << process.err;
  const Json json = Json::parse(process.out);
  EXPECT_EQ(json["budget_bytes"], 56 << 20) << process.err;
  EXPECT_LE(json["peak_since_budget_bytes"], 56 << 20);
  EXPECT_GE(json["process_peak_bytes"], json["peak_since_budget_bytes"]);
  EXPECT_EQ(json["steps"].size(), 40U);
  EXPECT_NE(process.err.find(" of 56.00 MiB"), std::string::npos) << process.err;
}

}  // namespace
