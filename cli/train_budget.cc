#include "cli/train_budget.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/console.h"
#include "cli/plan_text.h"
#include "cli/session_start.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/kernels/spill.h"
#include "plimsoll/report/plot.h"

namespace plimsoll::cli {
namespace {

constexpr int64_t kMostBytes = 256;  // of a budget file

// What is alive at each op of the step's program that takes the most, with the overhead, against the budget.
void print_picture(const train::Fit& fit, const Budget& budget) {
  constexpr int kColumns = 60;
  constexpr int kRows = 6;
  std::vector<int64_t> heights = plan::live_bytes(fit.session->executor().memory().liveness);
  for (int64_t& bytes : heights) bytes += fit.overhead_bytes;
  std::string rule;
  for (int i = 0; i < kColumns; ++i) rule += "╌";
  print("  {:>10} {} budget\n", format_bytes(budget.bytes), rule);
  for (const std::string& line : report::plot(heights, kColumns, kRows, budget.bytes)) {
    print("  {:>10} {}\n", "", line);
  }
  print("  {:>10} {}\n", "",
        fit.plan.in_micro_batches() ? "live bytes over the ops of one micro-batch"
                                    : "live bytes over the ops of the step");
}

}  // namespace

Budget read_budget(const BudgetOptions& options) {
  if (options.strict || options.budget == "auto") return parse_budget(options.budget, "--budget");
  const int64_t bytes = parse_bytes(options.budget);
  if (bytes == 0) throw ArgumentError("--budget is zero: expected a size like 2GiB, or auto");
  const Budget machine = machine_budget();
  if (bytes > machine.bytes) {
    tell("plimsoll: --budget is {}, but this machine has {} to give ({})\n", format_bytes(bytes),
         format_bytes(machine.bytes), machine.source);
  }
  return {bytes, "--budget"};
}

BudgetFile::BudgetFile(std::string path, Budget& budget) : path_(std::move(path)) {
  if (path_.empty()) return;
  seen_ = read_small_file(path_, kMostBytes);
  budget = {size_in(seen_), path_};
}

bool BudgetFile::changes(Budget& budget) {
  if (path_.empty()) return false;
  try {
    std::string text = read_small_file(path_, kMostBytes);
    if (text == seen_) return false;
    seen_ = std::move(text);
    const int64_t bytes = size_in(seen_);
    if (bytes == budget.bytes) return false;
    budget = {bytes, path_};
    return true;
  } catch (const Error& error) {
    if (told_ != error.what()) tell("note: the budget stays: {}\n", error.what());
    told_ = error.what();
    return false;
  }
}

int64_t BudgetFile::size_in(const std::string& text) const {
  const auto bytes = try_parse_bytes(text);
  if (!bytes || *bytes == 0) {
    throw InputError({.source = path_}, text.empty() ? "nothing" : quote(text), "a size like 2GiB");
  }
  return *bytes;
}

void print_plan(const train::Fit& fit, const Budget& budget, std::string_view costs) {
  erase_progress();
  print_bytes("unplanned", fit.plan.unplanned_bytes, "the whole batch at once");
  print_bytes("budget", budget.bytes, budget.source);
  print_bytes("arena", fit.plan.arena_bytes, batch_text(fit.plan));
  print_bytes("overhead", fit.overhead_bytes, "code, libraries, kernels, stacks, the system's own");
  print_bytes("peak", fit.predicted_peak_bytes, "of the process, predicted");
  print("  {:<10} {:>12}  a step: {}\n", "predicted", predicted_text(fit.plan, fit.plan.predicted_s), costs);
  if (const auto file = kernels::spill_file(); file && file->bytes() > 0) {
    print_bytes("spilled", file->bytes(), fmt::format("in {}", file->folder()));
  }
  for (const plan::Measure& measure : fit.plan.measures()) {
    print("  {:<10} {:>12}  {}\n", "", "", measure_text(measure));
  }
  print_picture(fit, budget);
  std::fflush(stdout);  // before the progress, which goes to stderr
}

}  // namespace plimsoll::cli
