#include "plimsoll/explain/talk.h"

#include <algorithm>
#include <cctype>
#include <span>
#include <string>

#include "plimsoll/explain/hearsay.h"
#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

using Words = std::span<const std::string_view>;
constexpr size_t npos = std::string_view::npos;

// All words below are lower case. Where a report says that memory was refused.
constexpr std::string_view kClaims[] = {
    "out of memory",     "outofmemory",        "oomkilled",      "oom-kill",       "oom_kill",
    "oom killer",        "cannot allocate",    "can't allocate", "alloc_failed",   "not_initialized",
    "bus error",         "cache blocks",       "oom when",       "killed process", "resource_exhausted",
    "not enough memory", "unable to allocate", "memoryerror",    "bad_alloc",      "low on memory"};

// Before it in its sentence.
constexpr std::string_view kLeads[] = {
    " if ",       " when ",      " whenever ", " how ",         " avoid ",    " prevent ",   " such as ",
    " like ",     " says ",      " say ",      " fix ",         " fixes ",    " fixed ",     " improve ",
    " improves ", " causes of ", " handle ",   " handles ",     " end with ", " ends with ", " i get ",
    " getting ",  " you get ",   " you see ",  " issue where ", " example "};

// After it, up to the end of the line.
constexpr std::string_view kTails[] = {" usually means", " means that",     " can be avoided", " can be solved",
                                       " can be worked", " is solved by",   " is raised when", " errors can",
                                       " see the faq",   "falling back to", " errors are ",    " errors when"};

// A message with letters where its figures would be.
constexpr std::string_view kTemplates[] = {"to allocate x ", "to allocate xx", "to allocate n ", "to allocate <",
                                           "to allocate {",  "to allocate …",  "to allocate ..."};

// In a list, too, a report may stand behind its label: "- **Exception Message:** MPS backend out of memory".
constexpr std::string_view kLabels[] = {
    "error: ", "error:** ", "error**: ", "exception: ", "message: ", "message:** ", "message**: "};

constexpr std::string_view kCode[] = {"raise runtimeerror(",
                                      "raise valueerror(",
                                      "raise memoryerror",
                                      "except ",
                                      " in str(",
                                      ".format(",
                                      "\" % ",
                                      "catch (",
                                      "throw std::",
                                      "assert_raises",
                                      "pytest.raises"};

// Words before a quotation mark: a "CUDA error: out of memory" is spoken of.
constexpr std::string_view kQuoting[] = {" a ",    " an ",   " the ", " of ",  " with ", " as ",
                                         " line ", " this ", " or ",  " and ", " on ",   " for "};

size_t claim_in(std::string_view low) {
  size_t first = npos;
  for (const std::string_view word : kClaims) first = std::min(first, low.find(word));
  return first;
}

// Where the clause begins that ends with the claim: after a full stop, or after a colon that is not an error's ("while
// it trained: RuntimeError: CUDA error: out of memory").
size_t clause_begin(std::string_view before) {
  const size_t stop = before.rfind(". ");
  for (size_t colon = before.rfind(": "); colon != npos; colon = before.substr(0, colon).rfind(": ")) {
    const std::string_view label = before.substr(0, colon);
    const bool names = label.ends_with("error") || label.ends_with("reason");
    if (!names) return std::max(colon + 1, stop + 1);  // npos + 1 is 0
    if (colon == 0) break;
  }
  return stop + 1;
}

std::string lead_of(std::string_view low, size_t at) {
  const std::string_view before = low.substr(0, at);
  return " " + std::string(before.substr(clause_begin(before))) + " ";
}

// However somebody leads in to it: three figures with their units are a report.
bool has_figures(std::string_view text) {
  constexpr std::string_view kUnits[] = {" gib", " mib", " gb", " mb", " bytes"};
  int count = 0;
  for (const std::string_view unit : kUnits) {
    for (size_t at = text.find(unit); at != npos; at = text.find(unit, at + unit.size())) {
      count += at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9' ? 1 : 0;
    }
  }
  return count >= 3;
}

// A whole report in marks of code is one that somebody shows: it is long and has figures.
bool is_shown(std::string_view low, size_t at) {
  constexpr size_t kLong = 80;
  constexpr int64_t kDigits = 6;
  const std::string_view quoted = low.substr(at, low.find('`', at) - at);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return quoted.size() >= kLong && std::count_if(quoted.begin(), quoted.end(), is_digit) >= kDigits;
}

bool is_quoted(std::string_view low, size_t at) {
  const std::string_view before = low.substr(0, at);
  if (is_shown(low, at)) return false;
  if (std::count(before.begin(), before.end(), '`') % 2 == 1) return true;
  const size_t mark = before.rfind('"');
  if (mark == npos) return false;
  const std::string_view words = before.substr(0, mark);
  return std::any_of(std::begin(kQuoting), std::end(kQuoting),
                     [&](std::string_view word) { return (" " + std::string(words)).ends_with(word); });
}

}  // namespace

bool is_talk(std::string_view line) {
  const std::string low = lower(trim(line));
  const size_t at = claim_in(low);
  if (!has_figures(low) && is_over(low)) return true;
  if (at == npos) return false;
  const bool code = has(low, kCode) && !contains(low, "\\n");          // no traceback that was put into one line
  const bool literal = low.front() == '"' && contains(low, "\",  #");  // a notebook holds its output as strings, too
  const bool listed = (low.starts_with("* ") || low.starts_with("- ")) && !has(low, kLabels);
  if (!code && !literal && has_figures(low.substr(at))) return false;
  return literal || listed || has(low, kTemplates) || low.ends_with(" passed") || contains(low, " passed ") ||
         has(lead_of(low, at), kLeads) || has(low.substr(at), kTails) || code || is_quoted(low, at);
}

}  // namespace plimsoll::explain
