#include "plimsoll/explain/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/remedies.h"
#include "plimsoll/explain/stack_roles.h"

namespace plimsoll::explain {
namespace {

constexpr size_t kMostCulprits = 20;

struct Held {
  int64_t bytes = 0;
  int64_t blocks = 0;
};

// Stacks have other numbers in another snapshot, so they are compared as text.
using HeldByStack = std::map<std::vector<std::string>, Held>;

HeldByStack held_by_stack(const Snapshot& snapshot, const DeviceState& device,
                          std::map<std::vector<std::string>, std::string>& places) {
  HeldByStack held;
  for (const Segment& segment : device.segments) {
    for (const Block& block : segment.blocks) {
      if (block.state != BlockState::active) continue;
      const auto stack = stack_text(snapshot.stacks, block.stack);
      places.try_emplace(stack, user_frame(snapshot.stacks, block.stack));
      held[stack].bytes += block.bytes;
      ++held[stack].blocks;
    }
  }
  return held;
}

int64_t total(const HeldByStack& held) {
  int64_t sum = 0;
  for (const auto& [stack, entry] : held) sum += entry.bytes;
  return sum;
}

std::vector<Culprit> grown(const HeldByStack& before, const HeldByStack& after,
                           const std::map<std::vector<std::string>, std::string>& places) {
  std::vector<Culprit> culprits;
  for (const auto& [stack, now] : after) {
    const auto found = before.find(stack);
    const Held then = found == before.end() ? Held{} : found->second;
    if (now.bytes <= then.bytes) continue;
    Culprit culprit;
    culprit.place = places.at(stack);
    culprit.innermost = stack.empty() ? "" : stack.front();
    culprit.stack = stack;
    culprit.bytes = now.bytes - then.bytes;
    culprit.blocks = now.blocks - then.blocks;
    culprits.push_back(std::move(culprit));
  }
  std::sort(culprits.begin(), culprits.end(), [](const Culprit& a, const Culprit& b) { return a.bytes > b.bytes; });
  return culprits;
}

Diagnosis compare_device(const Snapshot& before, const DeviceState& then, const Snapshot& after,
                         const DeviceState& now) {
  std::map<std::vector<std::string>, std::string> places;
  const HeldByStack held_then = held_by_stack(before, then, places);
  const HeldByStack held_now = held_by_stack(after, now, places);
  Diagnosis diagnosis;
  diagnosis.framework = Framework::torch;
  diagnosis.device = std::to_string(now.index);
  diagnosis.culprits = grown(held_then, held_now, places);
  int64_t growth = 0;
  for (const Culprit& culprit : diagnosis.culprits) growth += culprit.bytes;
  const int64_t first = total(held_then);
  const int64_t second = total(held_now);
  const bool grew = second - first > first / 20 && second > first;
  diagnosis.cause = grew ? Cause::leak : Cause::healthy;
  diagnosis.confidence = grew ? Confidence::medium : Confidence::high;
  diagnosis.accounts.push_back(
      {"alive in the second", second, {{"alive in the first too", second - growth}, {"grew in between", growth}}});
  diagnosis.facts = {
      {"alive in the first", first}, {"alive in the second", second}, {"freed in between", first - (second - growth)}};
  if (grew) {
    const Culprit& largest = diagnosis.culprits.front();
    diagnosis.place = largest.place;
    diagnosis.headline = fmt::format("{} grew to {} between the two, most at {} ({} in {} blocks)", format_bytes(first),
                                     format_bytes(second), largest.place, format_bytes(largest.bytes), largest.blocks);
  } else {
    diagnosis.headline =
        fmt::format("{} then, {} now: nothing of weight grew", format_bytes(first), format_bytes(second));
  }
  Situation situation;
  situation.cause = diagnosis.cause;
  situation.framework = diagnosis.framework;
  situation.place = diagnosis.place;
  if (grew) situation.leaked_bytes = diagnosis.culprits.front().bytes;
  add_remedies(situation, diagnosis);
  if (diagnosis.culprits.size() > kMostCulprits) diagnosis.culprits.resize(kMostCulprits);
  return diagnosis;
}

}  // namespace

Explanation compare(const Snapshot& before, const Snapshot& after) {
  Explanation explanation;
  explanation.source = before.source + " to " + after.source;
  explanation.kind = "comparison";
  for (const DeviceState& now : after.devices) {
    for (const DeviceState& then : before.devices) {
      if (then.index == now.index) explanation.diagnoses.push_back(compare_device(before, then, after, now));
    }
  }
  if (explanation.diagnoses.empty()) explanation.notes.push_back("the two snapshots have no device in common");
  return explanation;
}

}  // namespace plimsoll::explain
