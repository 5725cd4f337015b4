// One out-of-memory report as found in a log: who said it, and every number it gives. What it does not say stays
// empty; nothing is filled in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/explain/audience.h"
#include "plimsoll/explain/cause.h"

namespace plimsoll::explain {

// Which memory the message speaks of.
enum class Arena : uint8_t {
  device,         // asked of a device through the framework's allocator
  device_direct,  // asked of the driver by something else: a library handle, a context, a pinned buffer
  host,
  pinned_host,
  shared_memory,
  cgroup,
  worker,  // a worker process was killed, by whom is not said
  none     // nothing was asked of any memory: the size itself is impossible
};

// Someone who holds memory: a process, a buffer, a kind of buffer.
struct Holder {
  std::string name;
  int64_t bytes = 0;
};

using OptionalBytes = std::optional<int64_t>;

struct LineForm;

struct Failure {
  Framework framework = Framework::unknown;
  Framework engine = Framework::unknown;  // the server that runs it: vLLM, SGLang, TGI
  Backend backend = Backend::unknown;
  Task task = Task::unknown;
  Version version;  // the least that the wording or the log shows
  Arena arena = Arena::device;
  std::optional<Cause> says;             // the wording itself decides; the figures only illustrate
  Confidence sure = Confidence::medium;  // of that
  std::string_view headline;             // of that, with {requested} and so on
  const LineForm* form = nullptr;        // that opened it, if a table did
  std::string text;                      // of a message that may go on in the next lines
  std::string message;                   // as found, without colours, cut to a few hundred characters
  int64_t line = 0;                      // where it was first found
  std::string rank;                      // as the launcher's prefix says: "rank3"; empty when there is none
  std::string device;                    // "0", "hbm"; empty when not said
  std::string place;                     // the user's own frame of the traceback above: "train.py:35 in step"
  std::string subject;                   // the op, executable, process or tensor that asked
  std::string test;                      // under way when it was found; if it passes, nothing failed
  int64_t occurrences = 1;
  bool garbage_size = false;         // the message itself says that the size is impossible
  bool raised = true;                // false: an allocator logged it, and no exception was seen
  bool suggests_expandable = false;  // PyTorch's standing hint
  bool expandable_is_on = false;     // the log shows that they were set, the hint aside
  bool pinned_nearby = false;        // the traceback or the lines above speak of pinned memory
  bool is_fallback = false;          // no reader knows who said it; such a diagnosis is never sure
  bool names_need = false;           // the message says what was asked for in other words than bytes: a shape
  bool device_told = false;          // the message gives a size of whatever, or another line one of the device
  bool memory_is_assumed = false;    // the words do not say which memory; the host's is the usual one
  OptionalBytes requested_bytes;
  OptionalBytes total_bytes;         // of the device
  OptionalBytes told_total_bytes;    // the same, as other lines of the log tell it
  OptionalBytes free_bytes;          // of the device, as the driver says
  OptionalBytes allowed_bytes;       // a cap below the device
  OptionalBytes allocated_bytes;     // live in the framework's allocator
  OptionalBytes private_pool_bytes;  // of those, in CUDA graphs' pools
  OptionalBytes unallocated_bytes;   // reserved by the allocator and free in it
  OptionalBytes process_bytes;       // of this process on the device, all in all
  OptionalBytes other_bytes;         // held by others, where the message gives one sum
  OptionalBytes largest_free_bytes;  // the largest hole in the allocator
  OptionalBytes padding_bytes;       // of a TPU program: what rounding shapes up to tiles adds
  std::optional<int> used_percent;   // of a pool, where the message draws a picture of it
  std::optional<int> widest_gap_percent;
  std::vector<Holder> processes;  // others on the device or in the kernel's table
  std::vector<Holder> holders;    // what the allocator or compiler says is alive, by kind or buffer
};

// The cap if there is one below the device, else the device.
OptionalBytes limit_bytes(const Failure& failure);

// How many figures a reading has, and their sum. A line that was cut is put together in two ways; the right one finds
// more figures, or the same with their digits and units whole.
struct Figures {
  size_t count = 0;
  double sum = 0;
};

Figures figures_of(const Failure& failure);
bool operator>(const Figures& a, const Figures& b);

// The forms, one reader per family. `start` recognises the line that opens a report; `add` takes a later line of the
// same report and says whether it belonged.
struct MessageForm {
  std::optional<Failure> (*start)(std::string_view line);
  bool (*add)(std::string_view line, Failure& failure);
};
extern const MessageForm kTorchForm;
extern const MessageForm kTensorflowForm;
extern const MessageForm kXlaForm;
extern const MessageForm kKernelForm;
extern const MessageForm kOtherForm;     // Plimsoll itself, Python alone
extern const MessageForm kGenericForm;   // rarer frameworks, for after the others
extern const MessageForm kFallbackForm;  // the words of programs that nobody knows, for after all of them
extern const MessageForm kTableForm;     // all that the tables of plimsoll/explain/line_form.h know

}  // namespace plimsoll::explain
