#include "plimsoll/explain/recovery.h"

#include <algorithm>
#include <cctype>
#include <span>
#include <string>

#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

using Words = std::span<const std::string_view>;
constexpr size_t npos = std::string_view::npos;

// All words below are lower case. What a program says of itself, at the beginning of a clause.
constexpr std::string_view kGoesOn[] = {"retrying",
                                        "re-trying",
                                        "trying again",
                                        "trying with",
                                        "trying batch",
                                        "trying the next",
                                        "trying another",
                                        "trying a ",
                                        "trying to recover",
                                        "falling back",
                                        "fallback to",
                                        "skipping",
                                        "continuing with",
                                        "proceeding with",
                                        "going on with",
                                        "recovering",
                                        "attempting to recover",
                                        "attempting to copy",
                                        "attempting to retry",
                                        "attempting to continue"};
// The same, where advice and the lists of what somebody tried begin with it, too.
constexpr std::string_view kDoesLess[] = {"reducing",  "decreasing", "lowering",   "halving",  "shrinking", "splitting",
                                          "disabling", "dropping",   "offloading", "ignoring", "switching", "moving",
                                          "spilling",  "using ",     "evicting",   "lowered",  "reduced"};
constexpr std::string_view kSays[] = {"will retry",
                                      "will be retried",
                                      "will try ",
                                      "will be skipped",
                                      "will skip",
                                      "will fall back",
                                      "falls back",
                                      "fell back",
                                      "was skipped",
                                      "is skipped",
                                      "skipped batch",
                                      "recover from oom",
                                      "using batch-size",
                                      "decreasing batch size to",
                                      "kipping batch",
                                      "due to cuda oom",
                                      "retry with ",
                                      "reducing batch size to",
                                      "retry #",
                                      "batch skipped",
                                      "will use ",
                                      "and retrying",
                                      "and trying again",
                                      "is retrying",
                                      "ignoring this choice",
                                      "using cpu instead",
                                      "using the cpu instead"};

// What it could not have.
constexpr std::string_view kRefused[] = {"out of",       "oom",   "alloc",  "not enough",   "fail",
                                         "insufficient", "exhau", "unable", "memory error", "could not"};

// It is about memory, or about how much is done at once.
constexpr std::string_view kOfMemory[] = {
    "memory",  "oom",     "batch",    "alloc",   "smaller",  "tile",       "less",    "fewer",
    "lower",   "without", " cpu",     "chunk",   "config",   "tactic",     "recover", "half",
    "size",    "slower",  "pageable", "instead", "sample",   "choice",     "shorter", "eager",
    "offload", "buffer",  "low_vram", "lowvram", "low-vram", "sequential", "slice"};

// Before it in its sentence: advice, or somebody's story.
constexpr std::string_view kAdvice[] = {" try ",    " please ", " consider ", " you ",      " if ",
                                        " i ",      " i've ",   " i tried",   " may ",      " might ",
                                        " should ", " would ",  " solution",  " recommend", " suggest",
                                        " tips",    " hint",    " how ",      " possible ", " instead of "};
// Behind it.
constexpr std::string_view kInVain[] = {" help",          " fail",   " did not", "didn't",  "unsucc",
                                        " in vain",       " still",  " works,",  " works ", "error",
                                        " does not work", "connect", "download"};

constexpr std::string_view kWork[] = {
    "loss",       "it/s",    "s/it",      "listening", "loaded",         "epoch",    " step ",          "succe",
    "finished",   "done",    "completed", "saved",     "ready",          "tok/s",    "buffer size",     "tokens/s",
    "throughput", "iter ",   "samples/s", "100%",      "accuracy",       "evaluat",  "prompt executed", "best config",
    "generated",  "serving", "wrote",     "passed",    "graph captured", "capturing"};
constexpr std::string_view kNoWork[] = {"fail",      "error",  "unsucc",    "unable",
                                        "could not", "cannot", "exception", "killed"};

constexpr std::string_view kEnds[] = {
    "exited with",     "exit code ",       "exitcode",          "exit status ",
    "aborted",         "core dumped",      "segmentation f",    "terminate called",
    "giving up",       "gave up",          "failed to load",    "error loading",
    "unable to load",  "failed to create", "failed to init",    "fatal",
    "panic",           "exiting",          "failed after",      "still out of",
    "training failed", "run failed",       "could not recover", "unable to recover",
    "retries",         "retry failed",     "build failed",      "could not be created",
    "failed again",    "terminated with",  "not recoverable",   "no executable",
    "nothing left to", "stopping",         "also failed",       "cannot continue",
    "job failed",      "terminating",      "request failed",    "initialization failed",
    "failed to start", "failed to gener"};
constexpr std::string_view kQuiet[] = {"warn",         "[w]", "exit code 0", "exit code: 0", "exited with code 0",
                                       "exit status 0"};

std::string sentence_before(std::string_view low, size_t at) {
  const std::string_view before = low.substr(0, at);
  return " " + std::string(before.substr(before.rfind(". ") + 1)) + " ";  // npos + 1 is 0
}

bool begins_clause(std::string_view low, size_t at) {
  constexpr std::string_view kEndsOfClauses = ",;:.-!])|>";
  const std::string_view before = trim(low.substr(0, at));
  return before.empty() || contains(kEndsOfClauses, before.substr(before.size() - 1));
}

bool is_listed(std::string_view low) { return low.starts_with("- ") || low.starts_with("* ") || low.starts_with("> "); }

bool is_said(std::string_view low, size_t at) {
  return !has(sentence_before(low, at), kAdvice) && !has(low.substr(at), kInVain);
}

// A clause that begins with one of `words`.
bool has_clause(std::string_view low, Words words, bool may_begin_line) {
  for (const std::string_view word : words) {
    for (size_t at = low.find(word); at != npos; at = low.find(word, at + 1)) {
      if (begins_clause(low, at) && (at > 0 || may_begin_line) && is_said(low, at)) return true;
    }
  }
  return false;
}

// "reading in chunks of 10000 rows instead"
bool ends_with_instead(std::string_view low) {
  const std::string_view text = low.substr(0, low.find_last_not_of(". ") + 1);  // npos + 1 is 0
  const size_t comma = text.rfind(", ");
  return text.ends_with(" instead") && comma != npos && is_said(low, comma) && !contains(text.substr(comma), " use ");
}

bool has_phrase(std::string_view low) {
  return std::any_of(std::begin(kSays), std::end(kSays), [&](std::string_view word) {
    const size_t at = low.find(word);
    return at != npos && is_said(low, at);
  });
}

// "ValueError: …", "torch.cuda.CudaError: …", "Exception: …" at the beginning of the line.
bool is_exception(std::string_view line) {
  const size_t colon = line.find(':');
  const std::string_view name = line.substr(0, std::min(colon, line.size()));
  const bool word = !name.empty() && name.size() < 80 && name.find(' ') == npos;
  return word && (name.ends_with("Error") || name.ends_with("Exception") || name.ends_with("Failure"));
}

}  // namespace

bool says_it_goes_on(std::string_view line) {
  constexpr size_t kLongest = 1000;
  const std::string low = lower(trim(line).substr(0, kLongest));
  if (is_listed(low) || !has(low, kOfMemory)) return false;
  if (has_clause(low, kGoesOn, true) || has_phrase(low)) return true;
  return has(low, kRefused) && (has_clause(low, kDoesLess, false) || ends_with_instead(low));
}

bool shows_work(std::string_view line) {
  const std::string low = lower(line.substr(0, 400));
  return has(low, kWork) && !has(low, kNoWork);
}

bool shows_end(std::string_view line) {
  if (is_exception(trim(line))) return true;
  const std::string low = lower(line.substr(0, 400));
  return has(low, kEnds) && !has(low, kQuiet);
}

}  // namespace plimsoll::explain
