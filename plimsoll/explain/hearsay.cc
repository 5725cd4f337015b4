#include "plimsoll/explain/hearsay.h"

#include <algorithm>
#include <cctype>
#include <span>
#include <string>

#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

using Words = std::span<const std::string_view>;
constexpr size_t npos = std::string_view::npos;

// All words below are lower case. Where the failure is named.
constexpr std::string_view kNamed[] = {"out of memory", "outofmemory",   "oom",           "out-of-memory",
                                       "memoryerror",   "bad_alloc",     "alloc_failed",  "resource_exhausted",
                                       "cannot alloc",  "can't alloc",   "killed",        "unable to alloc",
                                       "allocation",    "failed to all", "ran out of mem"};

// Before it or behind it.
constexpr std::string_view kOver[] = {"took care of",
                                      "takes care of the",
                                      "has the fix",
                                      "closing as ",
                                      "that was it",
                                      "now solved",
                                      "now fixed",
                                      "fixed with ",
                                      "by the same bug",
                                      "it turned out",
                                      "turns out ",
                                      "you were right",
                                      "is history",
                                      "are history",
                                      "problem solved",
                                      "works now",
                                      "working now",
                                      "works perfectly",
                                      "works fine",
                                      "work fine",
                                      "for me now",
                                      "worked for me",
                                      "works for me",
                                      "fixed it",
                                      "fixed for me",
                                      "fixed this",
                                      "solved it",
                                      "solved this",
                                      "solved for me",
                                      "solved my",
                                      "fixed my",
                                      "resolved it",
                                      "resolved this",
                                      "resolved my",
                                      "did the trick",
                                      "got rid of",
                                      "get rid of",
                                      "like a charm",
                                      "saved my",
                                      "hope this helps",
                                      "hope it helps",
                                      "hope this help",
                                      "many thanks",
                                      "thanks a lot",
                                      "thanks to ",
                                      "thank you",
                                      "thanks @",
                                      "thanks, ",
                                      "cheers",
                                      "runs fine",
                                      "trains fine",
                                      "it is ok now",
                                      "it's ok now",
                                      "runs now",
                                      "trains now",
                                      "helped me",
                                      "is fine now",
                                      "all good now",
                                      "no more out of m",
                                      "no more oom",
                                      "no more \"",
                                      "no more 'out",
                                      "no more cuda",
                                      "no more memory allocation",
                                      "no more memoryerror",
                                      "no more std::bad",
                                      " work now",
                                      " thx",
                                      "closing this issue",
                                      "closing this.",
                                      "there's no cuda",
                                      "there's no out of",
                                      "there's no oom",
                                      "there is no cuda",
                                      "there is no out of",
                                      "there is no oom",
                                      "there are no oom",
                                      "without a cuda out",
                                      "without an out of",
                                      "without any out of",
                                      "without an oom",
                                      "without any oom",
                                      "without a memoryerror",
                                      " i used to ",
                                      " we used to ",
                                      " it used to "};
// Before it.
constexpr std::string_view kSolved[] = {
    "solved the ",        "solves the ",      "fixed the ",     "fixes the ",        "fixed an ",
    "fixed a ",           "resolved the ",    "resolves the ",  "cured the ",        "cures the ",
    "no longer get",      "no longer see",    "no longer run",  "don't get ",        "do not get ",
    "used to fail",       "used to crash",    "was getting ",   "were getting ",     "in order not",
    "so as not to",       "no longer killed", "avoided the ",   "avoids the ",       "would give ",
    "would get ",         "would raise ",     "would throw ",   "would expect ",     "might run into",
    "might get ",         "may run into",     "might see ",     "afraid of ",        "would have killed",
    "no longer have the", " i had ",          " we had ",       "managed to solve",  "managed to fix",
    "managed to get",     "managed to train", "managed to run", "used to be killed", "used to run out",
    "so far no "};
// At the beginning of the line.
constexpr std::string_view kTitles[] = {"solved", "[solved]", "(solved)", "fixed!", "fixed:", "[fixed]", "resolved"};
// Behind it.
constexpr std::string_view kGone[] = {
    " did not come back", " has not happened",    " hasn't happened",    " not come back",    " go away",
    " is solved",         " was solved",          " got solved",         " are solved",       " is resolved",
    " was resolved",      " was fixed",           " got fixed",          " is gone",          " are gone",
    " was gone",          " went away",           " goes away",          " has gone away",    " has been fixed",
    " been solved",       " been resolved",       " vanished",           " failed no more",   " not occur",
    " not thrown",        " not happen",          " never again",        " come back since",  " but a reboot",
    " until i ",          " until we ",           "error came from",     "errors came from",  " any more.",
    " any more!",         " any more,",           "error any more",      "errors any more",   "error anymore",
    "errors anymore",     "it anymore",           "happen anymore",      " no longer occur",  " no longer happen",
    " no longer appear",  " no longer a problem", " no longer an issue", " no longer thrown", " no longer killed",
    "error is fixed",     "errors are fixed",     "that is fixed",       " is fixed in ",     " is fixed now",
    " is fixed by ",      " is fixed with ",      "not happened again",  "error no more",     "errors no more",
    "error disappear",    "errors disappear",     " would disappear",    " solved with ",     " solved by "};

// It is not over.
constexpr std::string_view kStill[] = {"i still",     "we still",    "still get ",  "still happen",    "still crash",
                                       "still fail",  "still oom",   "in advance",  "any help",        "not solve",
                                       "n't solve",   "not fix",     "n't fix",     "not been solved", "not been fixed",
                                       "not resolve", "n't resolve", "not go away", "not disappear",   "n't help",
                                       "not help",    "not work"};

constexpr std::string_view kPersons[] = {" i ",       " i'm ",       " i've ",  " my ",     " me ",
                                         " me,",      " me.",        " we've ", " anyone ", " somebody ",
                                         " someone ", " everybody ", " guys ",  " hello ",  " hi ",
                                         " hey ",     " thanks ",    " thank ", " glad ",   " please help"};

}  // namespace

bool is_over(std::string_view line) {
  const std::string low = " " + lower(trim(line)) + " ";
  if (has(low, kStill)) return false;
  size_t at = npos;
  for (const std::string_view word : kNamed) at = std::min(at, low.find(word));
  const std::string_view text = low;
  const std::string_view before = text.substr(0, at);
  const std::string_view behind = at == npos ? text : text.substr(at);
  const auto begins = [&](std::string_view word) { return text.substr(1).starts_with(word); };
  return has(text, kOver) || has(before, kSolved) || has(behind, kGone) ||
         std::any_of(std::begin(kTitles), std::end(kTitles), begins);
}

bool is_personal(std::string_view line) {
  const std::string low = " " + lower(trim(line)) + " ";
  return low.starts_with(" @") || has(low, kPersons);
}

}  // namespace plimsoll::explain
