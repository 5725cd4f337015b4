// All that decides which remedies apply to a diagnosis and what they bring: whose failure it is, its cause, its
// figures.
#pragma once

#include <string>

#include "plimsoll/explain/diagnosis.h"

namespace plimsoll::explain {

struct Situation {
  Cause cause = Cause::healthy;
  Framework framework = Framework::unknown;
  Framework engine = Framework::unknown;  // the server around it, if any
  Backend backend = Backend::unknown;
  Task task = Task::unknown;
  Version version;  // of the framework; 0.0 when not known
  Arena arena = Arena::device;
  bool expandable_is_on = false;
  bool from_snapshot = false;  // what is alive is known already
  bool is_fallback = false;    // as in Failure
  bool transformers = false;   // the model is the Hugging Face library's
  std::string subject;         // as in Failure
  std::string who;             // who holds the memory of other_process
  std::string place;           // of the user's program: of the leak, of the repeated blocks
  int64_t blocks = 0;          // that repeat
  OptionalBytes requested_bytes;
  OptionalBytes limit_bytes;
  OptionalBytes total_bytes;
  OptionalBytes allowed_bytes;
  OptionalBytes allocated_bytes;
  OptionalBytes free_bytes;          // of the device
  OptionalBytes idle_bytes;          // free inside the allocator
  OptionalBytes idle_segment_bytes;  // of that, in segments without a live block
  OptionalBytes other_bytes;         // of other processes
  OptionalBytes process_bytes;
  OptionalBytes padding_bytes;
  OptionalBytes activation_bytes;
  OptionalBytes state_bytes;  // weights, gradients, optimizer state
  OptionalBytes optimizer_bytes;
  OptionalBytes scratch_bytes;
  OptionalBytes checkpoint_saves_bytes;
  OptionalBytes leaked_bytes;
  OptionalBytes leak_per_step_bytes;
  OptionalBytes excess_bytes;  // of an odd step over the usual one
};

}  // namespace plimsoll::explain
