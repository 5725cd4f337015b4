// A Diagnosis says why memory ran out: the cause, how sure that is, the numbers that decide it, and what would help.
// Plain data, the same for every framework; plimsoll/report shows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/base/category.h"
#include "plimsoll/explain/cause.h"
#include "plimsoll/explain/failure.h"

namespace plimsoll::explain {

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
  std::string id;    // of its row in the table: "torch.expandable_segments"
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
  std::string module;     // the model's own lines on the way there: "modeling_gpt2.py:608 > 305 > activations.py:66"
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
  Backend backend = Backend::unknown;
  Task task = Task::unknown;
  std::string device;
  std::string rank;
  std::vector<std::string> ranks;  // all that it was seen on, when they are several
  std::string place;               // of the user's program
  int64_t line = 0;                // in the log; 0 when not from one
  int64_t occurrences = 1;
  std::string message;
  OptionalBytes requested_bytes;
  OptionalBytes limit_bytes;
  OptionalBytes bytes_per_step;  // of a leak
  std::vector<Account> accounts;
  std::vector<Fact> facts;
  std::vector<Culprit> culprits;  // largest first
  std::vector<Remedy> remedies;   // best first
  std::string no_remedy;          // why there is none
  std::vector<Counterfactual> counterfactuals;
};

// The answer for one input.
struct Explanation {
  std::string source;
  std::string kind;  // "torch_snapshot", "log", "trace"
  std::vector<Diagnosis> diagnoses;
  std::vector<std::string> notes;  // "found nothing; looked for ..."
  bool wants_snapshot = false;     // a log that a snapshot would explain better, of a program that can record one
};

// Writes the answer into a diagnosis.
void settle(Diagnosis& diagnosis, Cause cause, Confidence confidence, std::string headline);

}  // namespace plimsoll::explain
