#include "plimsoll/explain/fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

// Requests of one step differ between ranks by rounding at most.
bool same_request(OptionalBytes a, OptionalBytes b) {
  if (!a || !b) return a == b;
  return std::abs(*a - *b) <= std::max(*a, *b) / 50;
}

// "Killed process 15617 (python3) total-vm:…" -> "python3"
std::string_view killed_program(const Diagnosis& diagnosis) {
  if (diagnosis.framework != Framework::kernel || !contains(diagnosis.message, "Killed process ")) return {};
  return between(diagnosis.message, "(", ")").value_or("");
}

// The same on another rank or device, or the same again.
bool is_same(const Diagnosis& a, const Diagnosis& b) {
  if (a.cause != b.cause || a.framework != b.framework || a.backend != b.backend) return false;
  if (!same_request(a.requested_bytes, b.requested_bytes)) return false;
  const bool elsewhere = a.rank != b.rank || a.device != b.device;
  const bool same_place = a.place == b.place || a.place.empty() || b.place.empty();
  const bool same_program = !killed_program(a).empty() && killed_program(a) == killed_program(b);
  return elsewhere ? same_place : same_place && (a.headline == b.headline || same_program);
}

// 3 for the kernel's report, 2 for those who watch from outside, 1 for a launcher that saw a process die, 0 for others.
int rank_of_kill(const Diagnosis& diagnosis) {
  const bool host = diagnosis.cause == Cause::host_memory || diagnosis.cause == Cause::cgroup_limit;
  if (!host) return 0;
  switch (diagnosis.framework) {
    case Framework::kernel:
      return 3;
    case Framework::slurm:
    case Framework::kubernetes:
    case Framework::systemd:
      return 2;
    default:
      return diagnosis.confidence != Confidence::high && contains(diagnosis.headline, "killed") ? 1 : 0;
  }
}

void take(Diagnosis& known, const Diagnosis& other) {
  known.occurrences += other.occurrences;
  for (const Diagnosis* one : {static_cast<const Diagnosis*>(&known), &other}) {
    const bool listed = std::find(known.ranks.begin(), known.ranks.end(), one->rank) != known.ranks.end();
    if (!one->rank.empty() && !listed) known.ranks.push_back(one->rank);
  }
  if (known.place.empty()) known.place = other.place;
}

// A weaker word about a kill that a stronger one explains.
bool is_echo(const Diagnosis& weak, const std::vector<Diagnosis>& all) {
  const int strength = rank_of_kill(weak);
  return strength > 0 && strength < 3 &&
         std::any_of(all.begin(), all.end(), [&](const Diagnosis& other) { return rank_of_kill(other) > strength; });
}

}  // namespace

std::vector<Diagnosis> fold(std::vector<Diagnosis> diagnoses) {
  std::vector<Diagnosis> folded;
  for (Diagnosis& diagnosis : diagnoses) {
    if (is_echo(diagnosis, diagnoses)) continue;
    const auto known =
        std::find_if(folded.begin(), folded.end(), [&](const Diagnosis& other) { return is_same(other, diagnosis); });
    known == folded.end() ? folded.push_back(std::move(diagnosis)) : take(*known, diagnosis);
  }
  return folded;
}

std::string ranks_text(const std::vector<std::string>& ranks) {
  std::set<int64_t> numbers;
  for (const std::string& rank : ranks) {
    const size_t digits = rank.find_last_not_of("0123456789") + 1;  // npos + 1 is 0: all digits
    const auto number = leading_integer(std::string_view(rank).substr(digits));
    if (!number) return fmt::format("{}", fmt::join(ranks, ", "));
    numbers.insert(*number);
  }
  std::string text = "ranks ";
  for (auto first = numbers.begin(); first != numbers.end();) {
    auto last = first;
    while (std::next(last) != numbers.end() && *std::next(last) == *last + 1) ++last;
    if (first != numbers.begin()) text += ", ";
    text += first == last ? std::to_string(*first) : fmt::format("{}-{}", *first, *last);
    first = std::next(last);
  }
  return text;
}

}  // namespace plimsoll::explain
