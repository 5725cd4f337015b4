// A Diagnosis says why memory ran out: the cause, how sure that is, the numbers that decide it, and what would help.
// Plain data, the same for every framework; plimsoll/report shows it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/base/category.h"
#include "plimsoll/explain/failure.h"

namespace plimsoll::explain {

enum class Cause : uint8_t {
  healthy,
  request_too_large,
  leak,
  activations,
  parameters_and_optimizer,
  fragmentation,
  other_process,
  outside_framework,
  cap_below_card,
  garbage_size,
  host_memory,
  pinned_host_memory,
  shared_memory,
  cgroup_limit,
  odd_step,
  workspace,
  device_full,
};
inline constexpr size_t kCauses = 17;

std::string_view name(Cause cause);         // as in --json: "pinned_host_memory"
std::string_view description(Cause cause);  // one sentence for the manual

enum class Confidence : uint8_t { low, medium, high };
std::string_view name(Confidence confidence);

// A total and the parts that it is the sum of, exactly.
struct Account {
  std::string name;
  int64_t total_bytes = 0;
  std::vector<Holder> parts;
};

// One observation, with its figure where it is one.
struct Fact {
  std::string text;
  OptionalBytes bytes;
};

// One way out. `saves_bytes` is predicted, at the moment of failure; nothing when it cannot be told.
struct Remedy {
  std::string action;
  std::string setting;  // the exact line, flag or variable
  OptionalBytes saves_bytes;
  std::string cost;  // "none", "about 30 % more compute"
};

// The same history under other circumstances.
struct Counterfactual {
  std::string name;
  int64_t needs_bytes = 0;
  std::string note;
};

// What one place of the user's program held.
struct Culprit {
  std::string place;      // "train.py:35 in step"
  std::string innermost;  // "linear.py:134 in forward": where the framework allocated
  std::vector<std::string> stack;
  Category category = Category::other;
  int64_t bytes = 0;
  int64_t blocks = 0;
};

struct Diagnosis {
  Cause cause = Cause::healthy;
  Confidence confidence = Confidence::low;
  std::string headline;  // one sentence with the deciding figures
  Framework framework = Framework::unknown;
  std::string device;
  std::string rank;
  std::string place;  // of the user's program
  int64_t line = 0;   // in the log; 0 when not from one
  int64_t occurrences = 1;
  std::string message;
  OptionalBytes requested_bytes;
  OptionalBytes limit_bytes;
  OptionalBytes bytes_per_step;  // of a leak
  std::vector<Account> accounts;
  std::vector<Fact> facts;
  std::vector<Culprit> culprits;  // largest first
  std::vector<Remedy> remedies;   // best first
  std::vector<Counterfactual> counterfactuals;
};

// The answer for one input.
struct Explanation {
  std::string source;
  std::string kind;  // "torch_snapshot", "log", "trace"
  std::vector<Diagnosis> diagnoses;
  std::vector<std::string> notes;  // "found nothing; looked for ..."
};

// Writes the answer into a diagnosis.
void settle(Diagnosis& diagnosis, Cause cause, Confidence confidence, std::string headline,
            std::vector<Remedy> remedies);

}  // namespace plimsoll::explain
