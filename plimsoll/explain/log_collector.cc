#include "plimsoll/explain/log_collector.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/explain/context.h"
#include "plimsoll/explain/device_figures.h"
#include "plimsoll/explain/line_dress.h"
#include "plimsoll/explain/line_form.h"
#include "plimsoll/explain/log_merge.h"
#include "plimsoll/explain/recovery.h"
#include "plimsoll/explain/talk.h"
#include "plimsoll/explain/test_runs.h"
#include "plimsoll/explain/text_scan.h"
#include "plimsoll/explain/unit_limit.h"

namespace plimsoll::explain {
namespace {

constexpr size_t kMostFailures = 1000;
constexpr int kFollow = 64;    // lines looked at after one that meant something
constexpr int kPeek = 4;       // lines looked at after one that may have been cut
constexpr int64_t kNear = 40;  // lines within which a report that nobody knows is another one's echo

const MessageForm* const kForms[] = {&kTableForm, &kTorchForm,  &kOtherForm,   &kTensorflowForm,
                                     &kXlaForm,   &kKernelForm, &kGenericForm, &kFallbackForm};

}  // namespace

class LogCollector::Lines {
 public:
  explicit Lines(LogFindings& findings) : findings_(findings) {}

  // What was to be tried again is a failure when the log ends with a traceback.
  void finish() {
    if (in_traceback_) restore_retried();
  }

  int line(std::string_view raw, std::string_view before) {
    const auto pieces = unpacked_lines(raw);
    if (pieces.empty()) return plain_line(raw, before);
    std::string context(before.substr(before.size() - std::min<size_t>(before.size(), 8 << 10)));
    int look = 0;
    for (const std::string& piece : pieces) {
      look = std::max(look - 1, plain_line(piece, context));
      context += piece + "\n";
    }
    return look;
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  struct Open;

  int plain_line(std::string_view raw, std::string_view before) {
    std::string text = strip_decoration(raw);
    std::string_view rest = without_prefix(text);
    std::string rank = take_rank(rest);
    if (rank.empty()) rank = take_rank(rest);
    rest = without_prefix(rest);
    Open& open = open_for(rank);
    if (one_line(rest, rank, before, open)) return kFollow;
    // What a terminal cuts off from a rank's line has no rank in front.
    const bool follows = rank.empty() && !last_rank_.empty() && findings_.lines - last_line_ <= kPeek;
    Open& cut = follows ? open_for(last_rank_) : open;
    if (follows && continues(rest, cut)) return kFollow;
    const bool meant = read_on(rest, follows ? last_rank_ : rank, before, cut);
    if (!follows) {
      last_rank_ = rank;
      last_line_ = findings_.lines;
    }
    return meant ? kFollow : cut.lines_left;
  }

  // What says of itself that it is none, and cuDNN's plans, of which PyTorch takes the next.
  static bool is_no_failure(std::string_view line) {
    return (contains(line, "ran out of memory") && contains(line, "this is not a failure")) ||
           contains(line, "Warning: Plan failed with ");
  }

  bool one_line(std::string_view rest, const std::string& rank, std::string_view before, Open& open) {
    if (is_no_failure(rest)) {
      ++findings_.not_failures;
      return true;
    }
    note_settings(rest);
    note_device(rest, open);
    if (const auto bytes = announced_device_bytes(rest)) device_bytes_ = bytes;
    if (contains(rest, "Skipping tactic")) return drop_warning(open);
    if (died_of_something_else(rest)) return drop_worker();
    if (all_tests_passed(rest)) return drop_near();
    if (const auto test = passed_test(rest)) return drop_tested(*test);
    if (contains(rest, "ould not find any implementation for node") && no_tactic_left(rest, open)) return true;
    if (const auto summary = start_memory_summary(rest)) {
      open.summary = findings_.summaries.size();
      findings_.summaries.push_back(*summary);
      findings_.summaries.back().line = findings_.lines;
      return true;
    }
    if (auto [failure, form] = start(rest); failure) {
      if (begins_above(*failure, *form, rest, rank, before, open)) return true;
      found(std::move(*failure), rest, rank, before, *form, open);
      begin_wrapped(rest, open);
      last_rank_ = rank;
      last_line_ = findings_.lines;
      if (goes_on(rest)) set_aside();
      return true;
    }
    if (goes_on(rest)) return set_aside();
    judge_retried(rest);
    return continues(rest, open) || continues(without_logger(rest), open);
  }

  struct Started {
    std::optional<Failure> failure;
    const MessageForm* form = nullptr;
  };

  // The first reader that claims the line.
  static Started start(std::string_view line) {
    if (is_no_failure(line)) return {};
    for (const MessageForm* form : kForms) {
      auto failure = form->start(line);
      if (!failure && form == &kOtherForm) failure = form->start(without_logger(line));
      if (!failure) continue;
      if (is_talk(line) || died_of_something_else(line)) break;
      return {std::move(failure), form};
    }
    return {};
  }

  // PyTorch's hint names the switch whether it is on or not; any other mention is somebody setting it.
  void note_settings(std::string_view line) {
    if (contains(line, "expandable_segments:True") && !contains(line, "try setting")) expandable_is_on_ = true;
  }

  // A failure without figures is followed by some of the device.
  void note_device(std::string_view line, const Open& open) {
    if (open.failure == kNone || open.failure >= findings_.failures.size()) return;
    Failure& failure = findings_.failures[open.failure];
    if (!failure.device_told) failure.device_told = tells_device_bytes(line);
    failure.told_total_bytes = std::max(failure.told_total_bytes, device_total(line));
  }

  // Terminals and editors cut a long message into lines, within words or between them. What was read of it so far is
  // read again with the line that follows.
  struct Wrapped {
    std::string tight;  // cut within words
    std::string loose;  // and between them
  };

  static bool may_be_cut(std::string_view line) { return line.size() >= 40 && line.size() < 400; }

  // Two lines that begin alike are two records, not two parts of one; so is what begins with a date or a level.
  static bool is_next_record(std::string_view line, std::string_view first) {
    constexpr size_t kAlike = 8;
    return begins_record(trim(line)) || (line.size() >= kAlike && first.starts_with(line.substr(0, kAlike)));
  }

  static Wrapped joined(const Wrapped& first, std::string_view line) {
    return {first.tight + std::string(trim(line)), first.loose + " " + std::string(trim(line))};
  }

  // The reading of a joined line that has more figures. The reader of last resort may not join lines.
  static Started start_joined(const Wrapped& wrapped) {
    Started tight = start(wrapped.tight);
    Started loose = start(wrapped.loose);
    if (tight.form == &kFallbackForm) tight = {};
    if (loose.form == &kFallbackForm) loose = {};
    if (!tight.failure) return loose;
    return loose.failure && figures_of(*loose.failure) > figures_of(*tight.failure) ? std::move(loose)
                                                                                    : std::move(tight);
  }

  void begin_wrapped(std::string_view line, Open& open) {
    open.lines_left = may_be_cut(trim(line)) ? kPeek : 0;
    open.stops_within = std::isalpha(static_cast<unsigned char>(trim(line).empty() ? '.' : trim(line).back())) != 0;
    open.wrapped = {std::string(trim(line)), std::string(trim(line))};
    open.reads_again = open.failure;
  }

  // The line above, as it would have come here.
  static std::string line_above(std::string_view before) {
    std::string_view text = before.substr(before.size() - std::min<size_t>(before.size(), 1024));
    if (text.ends_with("\n")) text.remove_suffix(1);
    if (text.ends_with("\r")) text.remove_suffix(1);
    const size_t begin = text.rfind('\n') + 1;  // npos + 1 is 0
    const std::string plain = strip_decoration(text.substr(begin));
    std::string_view rest = without_prefix(plain);
    take_rank(rest);
    return std::string(trim(rest));
  }

  // The words of anybody may be the end of a message that began in the line above.
  bool begins_above(const Failure& alone, const MessageForm& form, std::string_view line, const std::string& rank,
                    std::string_view before, Open& open) {
    if (&form != &kFallbackForm && &form != &kGenericForm) return false;
    const std::string above = line_above(before);
    if (!may_be_cut(above) || is_next_record(line, above)) return false;
    const Wrapped both = joined({above, above}, line);
    const Started started = start_joined(both);
    if (!started.failure || started.form == &form || !tells_more(*started.failure, alone)) return false;
    open.wrapped = both;
    return read_joined(rank, before, open);
  }

  // A line that means nothing alone: the next of a message that was cut, or the first.
  bool read_on(std::string_view line, const std::string& rank, std::string_view before, Open& open) {
    if (trim(line).empty()) return false;
    if (open.lines_left > 0 && !is_next_record(line, open.wrapped.tight)) {
      --open.lines_left;
      open.wrapped = joined(open.wrapped, line);
      return open.reads_again == kNone ? read_joined(rank, before, open) : read_again(before, open);
    }
    const std::string_view text = trim(line);
    const std::string above = line_above(before);
    if (may_be_cut(above) && !above.starts_with("*") && !is_next_record(text, above)) {
      open.wrapped = joined({above, above}, text);
      if (read_joined(rank, before, open)) return true;
    }
    begin_wrapped(text, open);
    open.reads_again = kNone;
    return false;
  }

  bool read_joined(const std::string& rank, std::string_view before, Open& open) {
    auto [failure, form] = start_joined(open.wrapped);
    if (!failure) return false;
    const Wrapped wrapped = open.wrapped;
    found(std::move(*failure), wrapped.loose, rank, before, *form, open);
    open.wrapped = wrapped;
    open.lines_left = kPeek;
    open.reads_again = open.failure;
    return true;
  }

  // Whether the joined line tells more than its first part did.
  static bool tells_more(const Failure& now, const Failure& was) {
    if (was.is_fallback) return true;
    if (was.framework == Framework::unknown && now.framework != Framework::unknown) return true;
    if (was.framework == now.framework && was.arena == Arena::device && now.arena == Arena::host) return true;
    return figures_of(now) > figures_of(was);
  }

  // A report that stops in the middle of a sentence, which goes on to say that nothing failed.
  static bool is_excused(const Open& open) {
    constexpr std::string_view kNot = "is not a failure";
    if (contains(open.wrapped.loose, kNot) || contains(open.wrapped.tight, kNot)) return true;
    const bool next = open.lines_left == kPeek - 1;
    if (!next || !open.stops_within || is_talk(open.wrapped.loose) || is_talk(open.wrapped.tight)) return false;
    return !start(open.wrapped.loose).failure && !start(open.wrapped.tight).failure;
  }

  bool read_again(std::string_view before, Open& open) {
    if (open.failure != open.reads_again || open.failure + 1 != findings_.failures.size()) return false;
    if (is_excused(open)) {
      open.lines_left = 0;
      return drop_last();
    }
    Failure& known = findings_.failures.back();
    auto [failure, form] = start_joined(open.wrapped);
    if (!failure || !known.text.empty() || known.occurrences > 1) return false;
    failure->message = std::string_view(open.wrapped.loose).substr(0, 600);
    failure->line = known.line;
    failure->rank = known.rank;
    failure->expandable_is_on = known.expandable_is_on;
    add_context(before, *failure);
    if (!tells_more(*failure, known)) return false;
    add_device_figures(before, *failure);
    failure->test = known.test;
    known = std::move(*failure);
    open.form = form;
    return true;
  }

  struct Open {
    size_t failure = kNone;
    size_t summary = kNone;
    Wrapped wrapped;  // a line that may go on in the next
    int lines_left = 0;
    bool stops_within = false;   // a sentence
    size_t reads_again = kNone;  // the failure that the line began
    const MessageForm* form = nullptr;
    OptionalBytes device_limit;  // XLA tells it once, before or after the failures that it explains
  };

  Open& open_for(const std::string& rank) {
    if (open_.size() > 4096) open_.clear();  // so many ranks are not ranks
    return open_[rank];
  }

  bool continues(std::string_view line, Open& open) {
    if (open.summary != kNone) {
      if (add_to_memory_summary(line, findings_.summaries[open.summary])) return true;
      open.summary = kNone;
    }
    if (open.failure == kNone) return false;
    Failure& failure = findings_.failures[open.failure];
    const bool belongs = open.form->add(line, failure) || kXlaForm.add(line, failure) ||
                         add_java_frame(line, failure) || add_unit_limit(line, failure);
    if (belongs && failure.framework == Framework::jax) open.device_limit = failure.allowed_bytes;
    return belongs;
  }

  void found(Failure failure, std::string_view line, const std::string& rank, std::string_view before,
             const MessageForm& form, Open& open) {
    failure.message = trim(line).substr(0, 600);
    failure.line = findings_.lines;
    failure.rank = rank;
    failure.expandable_is_on = expandable_is_on_;
    add_context(before, failure);
    if (open.failure != kNone && merge_failure(failure, findings_.failures[open.failure])) return;
    if (repeats(failure, open, form)) return;
    if (findings_.failures.size() < kMostFailures) {
      add_device_figures(before, failure);
      failure.test = open_test(before, line);
    }
    if (!retried_.empty()) settle_retried(failure);
    if (is_echo(failure)) return;
    drop_vaguer(failure);
    const bool bfc = failure.framework == Framework::tensorflow && failure.arena == Arena::device;
    if (bfc && !failure.total_bytes) failure.total_bytes = device_bytes_;
    if (findings_.failures.size() == kMostFailures) {
      ++findings_.more_failures;
      return;
    }
    const bool xla = failure.framework == Framework::jax || failure.framework == Framework::tensorflow;
    if (xla && !failure.allowed_bytes) failure.allowed_bytes = open.device_limit;
    open.failure = findings_.failures.size();
    open.form = &form;
    findings_.failures.push_back(std::move(failure));
  }

  // Those who watch from outside speak of what is over.
  static bool can_be_retried(const Failure& failure) {
    constexpr Framework kWatchers[] = {Framework::kernel, Framework::systemd, Framework::kubernetes, Framework::slurm,
                                       Framework::ray,    Framework::dask,    Framework::spark};
    return failure.arena != Arena::cgroup && failure.arena != Arena::worker &&
           std::find(std::begin(kWatchers), std::end(kWatchers), failure.framework) == std::end(kWatchers);
  }

  bool may_be_retried() const {
    return !findings_.failures.empty() && can_be_retried(findings_.failures.back()) &&
           findings_.lines - findings_.failures.back().line <= kNear;
  }

  // The program says that it goes on without what it could not have. Whether it does, the next lines tell.
  bool goes_on(std::string_view line) const { return may_be_retried() && says_it_goes_on(line); }

  bool set_aside() {
    retried_.clear();
    for (; may_be_retried(); drop_last()) retried_.push_back(findings_.failures.back());
    in_traceback_ = false;
    return true;
  }

  void judge_retried(std::string_view line) {
    if (retried_.empty()) return;
    if (contains(line, "Traceback (most recent call last)")) {
      in_traceback_ = true;
    } else if (shows_end(line)) {
      restore_retried();
    } else if (!in_traceback_ && shows_work(line)) {
      retried_.clear();
    }
  }

  void restore_retried() {
    for (; !retried_.empty(); retried_.pop_back()) {
      if (findings_.failures.size() == kMostFailures) break;
      findings_.failures.push_back(retried_.back());
      --findings_.not_failures;
    }
    in_traceback_ = false;
  }

  // What fails next stands for what was tried before, unless only a stranger's words tell of it.
  void settle_retried(const Failure& later) {
    if (later.is_fallback) restore_retried();
    retried_.clear();
    in_traceback_ = false;
  }

  // A pool of workers says first that one died, and names memory among the reasons; then it says of what signal.
  static bool died_of_something_else(std::string_view line) {
    const auto codes = after(line, "exit codes of the workers are {");
    return codes && !contains(*codes, "(-9)");
  }

  bool drop_worker() {
    const bool worker = !findings_.failures.empty() && findings_.failures.back().arena == Arena::worker;
    return worker && findings_.lines - findings_.failures.back().line <= kNear ? drop_last() : true;
  }

  bool drop_near() {
    while (!findings_.failures.empty() && findings_.lines - findings_.failures.back().line <= kFollow) drop_last();
    return false;
  }

  bool drop_tested(const std::string& test) {
    const auto is_of_it = [&](const Failure& failure) {
      return !failure.test.empty() && (test.empty() || failure.test == test);
    };
    while (!findings_.failures.empty() && is_of_it(findings_.failures.back())) drop_last();
    return false;
  }

  bool drop_last() {
    findings_.failures.pop_back();
    ++findings_.not_failures;
    forget_dropped();
    return true;
  }

  bool is_near(const Failure& later) const {
    return !findings_.failures.empty() && later.line - findings_.failures.back().line <= kNear;
  }

  // What only the reader of last resort claims is an echo of the report before it, if there is one. Of two such, the
  // one with figures stays.
  bool is_echo(const Failure& later) {
    if (!later.is_fallback || !is_near(later)) return false;
    Failure& known = findings_.failures.back();
    const bool names_memory = known.memory_is_assumed && !later.memory_is_assumed;
    if (known.is_fallback && ((!known.requested_bytes && later.requested_bytes) || names_memory)) {
      const int64_t line = known.line;
      known = later;
      known.line = line;
    }
    return true;
  }

  // And gives way to one that has a reader, as the driver's bare word does to whoever asked.
  void drop_vaguer(const Failure& later) {
    if (!is_near(later)) return;
    const Failure& known = findings_.failures.back();
    const bool bare = known.framework == Framework::unknown && !known.requested_bytes &&
                      later.framework != Framework::unknown && known.arena == Arena::device &&
                      later.arena == Arena::device;
    if (!known.is_fallback && !bare) return;
    findings_.failures.pop_back();
    forget_dropped();
  }

  void forget_dropped() {
    for (auto& [rank, other] : open_) {
      if (other.failure != kNone && other.failure >= findings_.failures.size()) other.failure = kNone;
    }
  }

  // TensorRT logs an error for each tactic that has no room, and then takes another.
  bool drop_warning(Open& open) {
    tactic_line_ = findings_.lines;
    while (!findings_.failures.empty()) {
      const Failure& last = findings_.failures.back();
      if (last.framework != Framework::tensorrt || last.raised) break;
      skipped_ = last;
      findings_.failures.pop_back();
      ++findings_.not_failures;
    }
    forget_dropped();
    open.failure = kNone;
    return true;
  }

  // Unless no other is left.
  bool no_tactic_left(std::string_view line, Open& open) {
    const bool warned = tactic_line_ > 0 && findings_.lines - tactic_line_ <= kNear;
    if (!(skipped_ || warned) || findings_.failures.size() >= kMostFailures) return false;
    if (skipped_) {
      --findings_.not_failures;
    } else {
      skipped_ = without_tactic(line);
    }
    skipped_->raised = true;
    open.failure = findings_.failures.size();
    open.form = &kTableForm;
    findings_.failures.push_back(*std::exchange(skipped_, std::nullopt));
    return true;
  }

  Failure without_tactic(std::string_view line) const {
    Failure failure;
    failure.framework = Framework::tensorrt;
    failure.backend = Backend::cuda;
    failure.task = Task::inference;
    failure.says = Cause::workspace;
    failure.headline = "No tactic of a layer fits the memory that is free on the device";
    failure.message = trim(line).substr(0, 600);
    failure.line = findings_.lines;
    return failure;
  }

  bool repeats(const Failure& failure, Open& open, const MessageForm& form) {
    for (size_t i = findings_.failures.size(); i-- > 0;) {
      Failure& known = findings_.failures[i];
      if (known.rank != failure.rank || !same_message(known.message, failure.message)) continue;
      ++known.occurrences;
      if (known.place.empty()) known.place = failure.place;
      open.failure = i;
      open.form = &form;
      return true;
    }
    return false;
  }

  LogFindings& findings_;
  std::map<std::string, Open> open_;
  bool expandable_is_on_ = false;
  OptionalBytes device_bytes_;      // as a framework announced it when it started
  std::optional<Failure> skipped_;  // the last tactic that had no room
  int64_t tactic_line_ = 0;         // where one was last skipped
  std::vector<Failure> retried_;    // set aside since the program said that it goes on
  bool in_traceback_ = false;       // after that
  std::string last_rank_;           // whose line came last, and where
  int64_t last_line_ = 0;
};

LogCollector::LogCollector(LogFindings& findings) : lines_(std::make_unique<Lines>(findings)) {}
LogCollector::~LogCollector() { lines_->finish(); }
int LogCollector::line(std::string_view raw, std::string_view before) { return lines_->line(raw, before); }

}  // namespace plimsoll::explain
