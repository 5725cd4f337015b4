#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/fold.h"
#include "plimsoll/explain/record.h"
#include "plimsoll/report/explanation.h"

namespace plimsoll::report {
namespace {

using explain::Account;
using explain::Cause;
using explain::Culprit;
using explain::Diagnosis;
using explain::Fact;
using explain::Remedy;

constexpr size_t kFirstScreen = 3;  // diagnoses told in detail; the rest get a line each
constexpr size_t kFewCulprits = 5;
constexpr size_t kFewRemedies = 3;
constexpr int kBarWidth = 18;  // so that a row fits 80 columns

class Writer {
 public:
  explicit Writer(const TextStyle& style) : style_(style) {}

  std::string write(const explain::Explanation& explanation) {
    const size_t count = explanation.diagnoses.size();
    for (size_t i = 0; i < count; ++i) {
      const Diagnosis& diagnosis = explanation.diagnoses[i];
      const bool in_detail = style_.full || i < kFirstScreen;
      if (i > 0 && in_detail) text_ += "\n";
      in_detail ? whole(diagnosis) : line(diagnosis);
    }
    if (explanation.wants_snapshot) recording();
    for (const std::string& note : explanation.notes) text_ += fmt::format("{}note: {}\n", count > 0 ? "\n" : "", note);
    if (!style_.full && more_) text_ += dim("\n(more with --full)\n");
    return std::move(text_);
  }

 private:
  // A message says how much was alive, not what.
  void recording() {
    text_ +=
        "\nto see what is alive, put this at the start of the program, run it again, and explain the file it writes\n";
    std::string_view snippet = explain::recording_snippet();
    while (!snippet.empty()) {
      const size_t end = snippet.find('\n');
      text_ += end == 0 ? "\n" : fmt::format("    {}\n", bold(snippet.substr(0, end)));
      snippet.remove_prefix(end + 1);
    }
  }

  std::string paint(std::string_view text, const char* code) const {
    return style_.colour ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
  }
  std::string bold(std::string_view text) const { return paint(text, "1"); }
  std::string dim(std::string_view text) const { return paint(text, "2"); }

  std::string title(const Diagnosis& diagnosis) const {
    const char* colour = diagnosis.cause == Cause::healthy ? "1;32" : "1;31";
    std::string text = paint(name(diagnosis.cause), colour);
    text += fmt::format("  {}", dim(fmt::format("({} confidence)", name(diagnosis.confidence))));
    std::string where;
    if (!diagnosis.device.empty()) where += fmt::format("  device {}", diagnosis.device);
    if (diagnosis.ranks.size() > 1) {
      where += fmt::format("  on {}", explain::ranks_text(diagnosis.ranks));
    } else if (!diagnosis.rank.empty()) {
      where += fmt::format("  {}", diagnosis.rank);
    }
    if (diagnosis.line > 0) where += fmt::format("  line {}", diagnosis.line);
    if (diagnosis.occurrences > static_cast<int64_t>(std::max<size_t>(diagnosis.ranks.size(), 1)))
      where += fmt::format("  seen {} times", diagnosis.occurrences);
    return text + dim(where);
  }

  void line(const Diagnosis& diagnosis) {
    more_ = true;
    text_ += fmt::format("{}: {}\n", title(diagnosis), diagnosis.headline);
  }

  void whole(const Diagnosis& diagnosis) {
    text_ += title(diagnosis) + "\n  " + bold(diagnosis.headline) + "\n";
    if (!diagnosis.place.empty()) text_ += fmt::format("  at {}\n", diagnosis.place);
    for (size_t i = 0; i < diagnosis.accounts.size(); ++i) {
      if (style_.full || i < 1) account(diagnosis.accounts[i]);
    }
    facts(diagnosis.facts);
    culprits(diagnosis.culprits);
    counterfactuals(diagnosis);
    remedies(diagnosis);
    if (style_.full && !diagnosis.message.empty()) text_ += fmt::format("\n  message: {}\n", diagnosis.message);
    more_ = more_ || diagnosis.accounts.size() > 1 || diagnosis.culprits.size() > kFewCulprits;
  }

  void account(const Account& account) {
    text_ += fmt::format("\n  {:<38} {:>12}\n", account.name, format_bytes(account.total_bytes));
    auto parts = account.parts;
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    for (const explain::Holder& part : parts) {
      const double share =
          account.total_bytes == 0 ? 0 : static_cast<double>(part.bytes) / static_cast<double>(account.total_bytes);
      text_ +=
          fmt::format("    {:<36} {:>12}  {:<{}} {:>3.0f} %\n", part.name, format_bytes(part.bytes),
                      std::string(static_cast<size_t>(std::lround(share * kBarWidth)), '#'), kBarWidth, 100 * share);
    }
  }

  void facts(const std::vector<Fact>& facts) {
    if (!facts.empty()) text_ += "\n";
    for (const Fact& fact : facts) {
      text_ += fact.bytes ? fmt::format("  {:>12}  {}\n", format_bytes(*fact.bytes), fact.text)
                          : fmt::format("  {:>12}  {}\n", "", fact.text);
    }
  }

  void culprits(const std::vector<Culprit>& culprits) {
    if (culprits.empty()) return;
    text_ += "\n  who holds it\n";
    const size_t shown = style_.full ? culprits.size() : std::min(culprits.size(), kFewCulprits);
    for (size_t i = 0; i < shown; ++i) {
      const Culprit& culprit = culprits[i];
      text_ += fmt::format("  {:>12}  {:<15} {:>5} x  {}\n", format_bytes(culprit.bytes), name(culprit.category),
                           culprit.blocks, where(culprit));
      if (style_.full) stack(culprit);
    }
  }

  // The model's own lines where there are any, then the user's call; PyTorch's frames only in --full.
  std::string where(const Culprit& culprit) const {
    if (!culprit.module.empty()) return culprit.module + dim(fmt::format("  <- {}", culprit.place));
    const bool apart = !culprit.innermost.empty() && culprit.innermost != culprit.place;
    return culprit.place + (apart ? dim(fmt::format("  ({})", culprit.innermost)) : "");
  }

  void stack(const Culprit& culprit) {
    for (const std::string& frame : culprit.stack) text_ += dim(fmt::format("                    {}\n", frame));
  }

  void counterfactuals(const Diagnosis& diagnosis) {
    if (diagnosis.counterfactuals.empty()) return;
    text_ += "\n  the same history would have needed\n";
    for (const auto& other : diagnosis.counterfactuals) {
      text_ += fmt::format("  {:>12}  {}{}\n", format_bytes(other.needs_bytes), other.name,
                           other.note.empty() ? "" : dim(fmt::format("  ({})", other.note)));
    }
  }

  void remedies(const Diagnosis& diagnosis) {
    const std::vector<Remedy>& remedies = diagnosis.remedies;
    if (remedies.empty() && diagnosis.cause == Cause::healthy) return;
    text_ += "\n  what would help\n";
    if (remedies.empty()) text_ += fmt::format("  no remedy is known: {}\n", diagnosis.no_remedy);
    const size_t shown = style_.full ? remedies.size() : std::min(remedies.size(), kFewRemedies);
    for (size_t i = 0; i < shown; ++i) {
      const Remedy& remedy = remedies[i];
      const std::string saves = remedy.saves_bytes ? fmt::format("wins {}, ", format_bytes(*remedy.saves_bytes)) : "";
      text_ +=
          fmt::format("  {}. {} {}\n", i + 1, remedy.action, dim(fmt::format("({}costs: {})", saves, remedy.cost)));
      if (!remedy.setting.empty()) text_ += fmt::format("       {}\n", bold(remedy.setting));
    }
    more_ = more_ || shown < remedies.size();
  }

  TextStyle style_;
  std::string text_;
  bool more_ = false;
};

}  // namespace

std::string explanation_text(const explain::Explanation& explanation, const TextStyle& style) {
  return Writer(style).write(explanation);
}

}  // namespace plimsoll::report
