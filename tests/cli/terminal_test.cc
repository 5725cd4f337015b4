// What verbs print fits a terminal of 80 columns, in any locale, and without colour where none is wanted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "tests/cli/process.h"
#include "tests/memory/sanitized.h"

namespace {

constexpr size_t kColumns = 80;
constexpr const char* kTrainBudget = plimsoll::kSanitized ? "2GiB" : "40MiB";  // sanitizers take their share

std::string output_of(const std::vector<std::string>& arguments, const char* locale = "C.UTF-8") {
  Process process(arguments, [locale] {
    setenv("COLUMNS", "80", 1);
    setenv("LC_ALL", locale, 1);
  });
  process.wait();
  EXPECT_FALSE(process.out.empty()) << arguments[0] << ": " << process.err;
  return process.out;
}

// A line with blanks in it could be folded; paths and other long words could not.
void expect_fits(const std::string& text, const std::string& what) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto width = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
    const bool is_word = line.find(' ', line.find_first_not_of(' ')) == std::string::npos;
    EXPECT_TRUE(static_cast<size_t>(width) <= kColumns || is_word) << what << ": " << width << " columns: " << line;
  }
}

const std::vector<std::vector<std::string>> kCommands = {
    {"--help"},
    {"models"},
    {"tensor", "10000x1000"},
    {"estimate", "gpt2-nano", "--device", "none"},
    {"estimate", "resnet18", "--batch", "2", "--precision", "bf16"},
    {"plan", "lenet", "--budget", "3MiB", "--batch", "256", "--threads", "1"},
    {"plan", "lenet", "--budget", "3MiB", "--max-batch", "--time-limit", "3", "--threads", "1"},
    {"train", "lenet", "--batch", "300", "--budget", kTrainBudget, "--steps", "2", "--no-measure", "--threads", "1"},
    {"run", "lenet", "--compare", "bf16", "--threads", "1"},
    {"replay", PLIMSOLL_SOURCE_DIR "/tests/data/traces/widecnn_b32.csv.gz", "--policy", "torch"},
    {"pack", "--trace", PLIMSOLL_SOURCE_DIR "/tests/data/traces/widecnn_b32.csv.gz", "--time-limit", "1"},
    {"explain", PLIMSOLL_SOURCE_DIR "/tests/data/oom/oom_gpt2.pickle.gz"},
};

TEST(CliTerminal, EveryVerbFits80Columns) {
  for (const auto& command : kCommands) expect_fits(output_of(command), command[0]);
}

TEST(CliTerminal, EveryHelpFits80Columns) {
  for (const char* verb :
       {"estimate", "plan", "train", "run", "exec", "explain", "models", "tensor", "pack", "replay"}) {
    expect_fits(output_of({verb, "--help"}), verb);
  }
}

TEST(CliTerminal, IsAsciiInTheCLocale) {
  for (const auto& command : kCommands) {
    const std::string text = output_of(command, "C");
    EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
        << command[0] << "\n"
        << text;
  }
}

TEST(CliTerminal, HasNoColourWhereItIsNotATerminal) {
  for (const auto& command : kCommands) EXPECT_EQ(output_of(command).find('\x1b'), std::string::npos) << command[0];
}

TEST(CliTerminal, CompletesVerbsAndOptionsInAllShells) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = output_of({"--completion", shell});
    for (const char* word : {"estimate", "explain", "no-grad-accumulation", "budget-file"}) {
      EXPECT_NE(script.find(word), std::string::npos) << shell << " lacks " << word;
    }
  }
  Process unknown({"--completion", "tcsh"});
  unknown.wait();
  EXPECT_NE(unknown.err.find("expected bash, zsh or fish"), std::string::npos) << unknown.err;
}

TEST(CliTerminal, HasAManualPage) {
  const std::string page = output_of({"--man"});
  EXPECT_EQ(page.rfind(".TH PLIMSOLL 1", 0), 0U);
  EXPECT_NE(page.find(".B \\-\\-budget"), std::string::npos);
}

TEST(CliTerminal, ReadsPrecisionsAsPyTorchNamesThem) {
  for (const char* precision : {"fp32", "float32", "torch.float32"}) {
    const std::string json = output_of({"estimate", "mlp", "--device", "none", "--precision", precision, "--json"});
    EXPECT_NE(json.find("\"precision\": \"f32\""), std::string::npos) << precision;
  }
}

}  // namespace
