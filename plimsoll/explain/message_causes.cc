#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/causes.h"
#include "plimsoll/explain/message_evidence.h"
#include "plimsoll/explain/remedies.h"
#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

std::string text(OptionalBytes bytes) { return bytes ? format_bytes(*bytes) : "an unknown amount"; }

// The message as numbers with names, and what follows from them.
class Verdict {
 public:
  Verdict(const Failure& failure, const MemorySummary* summary)
      : failure_(with_own_process(failure)), summary_(summary) {}

  Diagnosis decide() {
    diagnosis_.framework = failure_.framework;
    diagnosis_.backend = failure_.backend;
    diagnosis_.task = failure_.task;
    diagnosis_.device = failure_.device;
    diagnosis_.rank = failure_.rank;
    diagnosis_.place = failure_.place;
    diagnosis_.line = failure_.line;
    diagnosis_.occurrences = failure_.occurrences;
    diagnosis_.message = failure_.message;
    diagnosis_.requested_bytes = failure_.requested_bytes;
    diagnosis_.limit_bytes = limit_bytes(failure_);
    choose();
    add_evidence(failure_, summary_, diagnosis_);
    add_remedies(situation(), diagnosis_);
    return std::move(diagnosis_);
  }

 private:
  void is(Cause cause, Confidence confidence, std::string headline) {
    if (failure_.is_fallback) confidence = std::min(confidence, Confidence::medium);
    settle(diagnosis_, cause, confidence, std::move(headline));
  }

  void choose() {
    if (failure_.garbage_size || (failure_.arena == Arena::device && wanted() >= kGarbage)) return garbage();
    if (failure_.says == Cause::unknown && failure_.device_told) return told_elsewhere();
    if (failure_.says) return is(*failure_.says, failure_.sure, told_headline());
    switch (failure_.arena) {
      case Arena::host:
        return failure_.framework == Framework::kernel ? killed() : host();
      case Arena::pinned_host:
        return pinned();
      case Arena::shared_memory:
        return is(Cause::shared_memory, Confidence::high,
                  "The loader's workers filled /dev/shm, which is small in containers");
      case Arena::cgroup:
        return cgroup();
      case Arena::worker:
        return worker();
      case Arena::device_direct:
        return failure_.subject == "preallocation" ? preallocation() : library();
      default:
        return device();
    }
  }

  int64_t wanted() const { return failure_.requested_bytes.value_or(0); }
  int64_t idle() const { return failure_.unallocated_bytes.value_or(0); }
  bool knows_limit() const { return limit_bytes(failure_).has_value(); }
  int64_t limit() const { return limit_bytes(failure_).value_or(INT64_MAX); }

  std::string told_headline() const {
    return fmt::format(fmt::runtime(failure_.headline), fmt::arg("requested", text(failure_.requested_bytes)),
                       fmt::arg("free", text(failure_.free_bytes)), fmt::arg("total", text(failure_.total_bytes)),
                       fmt::arg("allowed", text(failure_.allowed_bytes)),
                       fmt::arg("allocated", text(failure_.allocated_bytes)),
                       fmt::arg("process", text(failure_.process_bytes)), fmt::arg("subject", failure_.subject));
  }

  void garbage() {
    const std::string what =
        failure_.subject.starts_with("[") ? "a tensor of sizes " + failure_.subject : text(failure_.requested_bytes);
    const bool known = failure_.requested_bytes || failure_.subject.starts_with("[");
    is(Cause::garbage_size, Confidence::high,
       fmt::format("{} was asked for, which no memory has: the size itself is wrong",
                   known ? what : "More than any machine has"));
  }

  // Neither the message nor any other line of the log has a figure of the request or of the device.
  bool has_no_figures() const {
    return figures_of(failure_).count == 0 && !failure_.used_percent && failure_.holders.empty() &&
           !failure_.names_need && !failure_.device_told;
  }

  void bare_word() {
    is(Cause::unknown, Confidence::low,
       "Device memory was refused; the message does not say how much was asked for, or who holds the rest");
  }

  void told_elsewhere() {
    is(Cause::device_full, Confidence::low,
       failure_.is_fallback
           ? told_headline()
           : "The device's memory is full; the message gives no figures, and other lines only some of the device");
  }

  void device() {
    if (knows_limit() && wanted() > limit()) return too_large();
    if (beats_told_device()) return larger_than_told();
    if (beats_every_card()) return larger_than_any_card();
    if (beats_one_block()) return one_block();
    if (beats_what_is_told()) return too_large_for_what_is_told();
    if (names_own_cap()) return capped();
    if (failure_.other_bytes && *failure_.other_bytes >= wanted() && *failure_.other_bytes * 4 >= limit()) {
      return outside_framework(*failure_.other_bytes);
    }
    if (has_room_beyond()) return is_fragmented() ? fragmented() : capped();
    weigh();
  }

  // The largest holder of what the request lacked decides, if it is large enough to have served it.
  void weigh() {
    const int64_t held_by_others = plausible(others(failure_), 10);
    const int64_t held_outside = plausible(outside(failure_), 4);
    const int64_t idle_in_reserve = is_fragmented() ? idle() : 0;
    const int64_t of_nobody = plausible(unexplained(failure_), 4);
    const int64_t most = std::max({held_by_others, held_outside, idle_in_reserve});
    if (of_nobody > most && most == idle_in_reserve) return other_process(of_nobody, Confidence::medium);
    if (most == 0) return full();
    if (most == held_by_others) {
      const bool told = !failure_.processes.empty() && failure_.process_bytes;
      return other_process(most, told ? Confidence::high : Confidence::medium);
    }
    if (most == held_outside) return outside_framework(most);
    fragmented();
  }

  // A share of the device, at least one part of `parts`, that would have served the request; otherwise 0.
  int64_t plausible(OptionalBytes held, int64_t parts) const {
    if (!held || *held < wanted()) return 0;
    return *held >= failure_.total_bytes.value_or(limit()) / parts ? *held : 0;
  }

  // The message does not tell the device's size; another line does.
  bool beats_told_device() const {
    return !knows_limit() && failure_.told_total_bytes && failure_.arena == Arena::device &&
           failure_.backend != Backend::cpu && wanted() > *failure_.told_total_bytes;
  }

  void larger_than_told() {
    is(Cause::request_too_large, Confidence::medium,
       fmt::format("One request of {} is larger than the whole device, which has {}: freeing everything else would not "
                   "help",
                   text(failure_.requested_bytes), text(failure_.told_total_bytes)));
  }

  // The largest cards have 288 GiB; a program that a compiler counts as a whole may be larger.
  bool beats_every_card() const {
    return !knows_limit() && failure_.backend != Backend::tpu && failure_.backend != Backend::cpu &&
           !failure_.allocated_bytes && wanted() > 512 * kGiB;
  }

  void larger_than_any_card() {
    is(Cause::request_too_large, Confidence::high,
       fmt::format("One request of {} is larger than any device's memory: a shape is not what it is meant to be",
                   text(failure_.requested_bytes)));
  }

  // More than what is free and what this process holds together.
  bool beats_what_is_told() const {
    return !knows_limit() && failure_.free_bytes && failure_.allocated_bytes &&
           wanted() > *failure_.free_bytes + *failure_.allocated_bytes;
  }

  void too_large_for_what_is_told() {
    is(Cause::request_too_large, Confidence::medium,
       fmt::format("One request of {} is more than the {} that is free and the {} that is held together",
                   text(failure_.requested_bytes), text(failure_.free_bytes), text(failure_.allocated_bytes)));
  }

  // A library that says how much it holds and where its own limit is.
  bool names_own_cap() const {
    return failure_.framework == Framework::unknown && failure_.allowed_bytes && failure_.allocated_bytes &&
           *failure_.allocated_bytes <= *failure_.allowed_bytes &&
           *failure_.allowed_bytes - *failure_.allocated_bytes < std::max(wanted(), *failure_.allowed_bytes / 50);
  }

  // Intel's driver gives no block above 4 GiB unless it is told to.
  bool beats_one_block() const {
    return failure_.backend == Backend::xpu && knows_limit() && wanted() >= 4 * kGiB &&
           failure_.allocated_bytes.value_or(limit()) + wanted() < limit() / 10 * 9;
  }

  // Idle in the allocator's reserve, enough for the request, a share of the device that is worth naming, and refused.
  bool is_fragmented() const {
    if (failure_.largest_free_bytes && idle() >= wanted() && *failure_.largest_free_bytes < wanted()) return true;
    const bool torch = failure_.framework == Framework::torch || failure_.engine != Framework::unknown;
    if (!torch || !failure_.allocated_bytes || !failure_.requested_bytes) return false;
    if (spills_to_host()) return false;
    // Allocators keep a percent or two in pieces when all is well; that much does not explain a full card.
    return idle() >= wanted() && (idle() >= limit() / 100 * 3 || (idle() / 16 >= wanted() && idle() >= limit() / 100));
  }

  // Windows lends RAM to the card when it is full: PyTorch then holds more than the card has.
  bool spills_to_host() const {
    return failure_.total_bytes && failure_.allocated_bytes && *failure_.allocated_bytes > *failure_.total_bytes;
  }

  // The driver has enough, and the allocator may not have it. What is free on a full card may be a little more than
  // the request: allocators ask the driver for whole segments, and what it has left lies in pieces.
  bool has_room_beyond() const {
    if (!failure_.free_bytes || *failure_.free_bytes < wanted() || !failure_.requested_bytes) return false;
    const int64_t leftover = failure_.total_bytes ? *failure_.total_bytes / 50 : 64 * kMiB;
    if (!failure_.allowed_bytes && *failure_.free_bytes < leftover) return false;
    if (failure_.backend == Backend::tpu || failure_.framework == Framework::paddle) return false;
    return !failure_.allowed_bytes || !failure_.total_bytes || *failure_.allowed_bytes < *failure_.total_bytes;
  }

  void too_large() {
    const bool cap = failure_.allowed_bytes && (!failure_.total_bytes || wanted() <= *failure_.total_bytes);
    const char* what = failure_.framework == Framework::mlx ? "the largest buffer"
                       : cap                                ? "the cap"
                                                            : "the whole device";
    is(Cause::request_too_large, Confidence::high,
       fmt::format("One request of {} is larger than {} of {}: freeing everything else would not help",
                   text(failure_.requested_bytes), what, text(limit_bytes(failure_))));
  }

  void one_block() {
    is(Cause::request_too_large, Confidence::medium,
       fmt::format("One request of {} is more than the driver gives in one block (4 GiB), while most of {} is free",
                   text(failure_.requested_bytes), text(limit_bytes(failure_))));
  }

  void fragmented() {
    const bool clear = idle() >= 2 * wanted() && idle() >= limit() / 10 && idle() >= unexplained(failure_).value_or(0);
    is(Cause::fragmentation, clear ? Confidence::high : Confidence::medium,
       fmt::format("{} is free inside the allocator and {} was asked for, but no free piece is that large",
                   format_bytes(idle()), text(failure_.requested_bytes)));
  }

  std::string holder() const {
    if (failure_.processes.empty()) {
      return failure_.process_bytes ? "the other processes" : "others, or outside the framework";
    }
    return failure_.processes.size() == 1 ? failure_.processes[0].name
                                          : fmt::format("{} other processes", failure_.processes.size());
  }

  void other_process(int64_t bytes, Confidence confidence) {
    other_bytes_ = bytes;
    is(Cause::other_process, confidence,
       fmt::format("{} of the device is held by {}; the request was {}", format_bytes(bytes), holder(),
                   text(failure_.requested_bytes)));
  }

  void capped() {
    const bool said = failure_.allowed_bytes.has_value();
    const std::string cap = said ? "the process's cap of " + text(failure_.allowed_bytes) : "a limit below the device";
    is(Cause::cap_below_card, said ? Confidence::high : Confidence::medium,
       failure_.free_bytes
           ? fmt::format("{} is reached while the device still has {} free", cap, text(failure_.free_bytes))
           : fmt::format("{} is reached: {} is held", cap, text(failure_.allocated_bytes)));
    diagnosis_.headline[0] = static_cast<char>(std::toupper(diagnosis_.headline[0]));
  }

  void outside_framework(int64_t bytes) {
    is(Cause::outside_framework, bytes * 2 >= limit() ? Confidence::high : Confidence::medium,
       failure_.backend == Backend::mps
           ? fmt::format("{} of this process's Metal memory is not PyTorch's: graphs, other libraries",
                         format_bytes(bytes))
           : fmt::format(
                 "{} of this process's memory is not PyTorch's: the device's context, collectives or another library",
                 format_bytes(bytes)));
  }

  // Live tensors fill what may be had. Of what kind they are, a message does not tell.
  void full() {
    const bool xla = failure_.framework == Framework::jax || failure_.backend == Backend::tpu;
    if (xla && has_composition()) return composition();
    if (has_no_figures()) return bare_word();
    const bool known = knows_limit() && failure_.allocated_bytes && *failure_.allocated_bytes >= limit() / 10 * 6;
    const bool some = failure_.free_bytes || failure_.used_percent || (knows_limit() && failure_.allocated_bytes);
    is(Cause::device_full, known ? Confidence::high : some ? Confidence::medium : Confidence::low, full_headline());
  }

  std::string full_headline() const {
    if (failure_.backend == Backend::tpu && failure_.allocated_bytes && failure_.total_bytes) {
      return fmt::format("The whole program needs {} and the chip has {}", text(failure_.allocated_bytes),
                         text(failure_.total_bytes));
    }
    if (spills_to_host()) {
      return fmt::format("{} is in live tensors on a card of {}: the rest already lies in the host's RAM",
                         text(failure_.allocated_bytes), text(failure_.total_bytes));
    }
    if (failure_.allocated_bytes && knows_limit()) {
      return fmt::format("{} of {} is in live tensors, and {} more was asked for", text(failure_.allocated_bytes),
                         text(limit_bytes(failure_)), text(failure_.requested_bytes));
    }
    if (failure_.free_bytes) {
      return fmt::format("{} was asked for and {} is free", text(failure_.requested_bytes), text(failure_.free_bytes));
    }
    if (failure_.used_percent) {
      return fmt::format("{} was asked for; the allocator's map shows {} % in use and the widest gap at {} %",
                         text(failure_.requested_bytes), *failure_.used_percent, *failure_.widest_gap_percent);
    }
    if (failure_.names_need && !failure_.requested_bytes)
      return "There is no room on the device for " + failure_.subject;
    if (!failure_.requested_bytes) return "The device's memory is full; the message gives no figures";
    return fmt::format("{} could not be had; the message does not say what holds the rest",
                       text(failure_.requested_bytes));
  }

  // XLA's buffer assignment and its TPU compiler tell arguments from temporaries.
  OptionalBytes held(std::string_view kind) const {
    for (const Holder& holder : failure_.holders) {
      if (contains(holder.name, kind) && !holder.name.starts_with("buffer ")) return holder.bytes;
    }
    return std::nullopt;
  }

  // A program that needs little itself did not fill the device.
  bool has_composition() const {
    return held("parameter") && held("temp") && *held("parameter") + *held("temp") >= kGiB;
  }

  // What XLA calls temporaries is what forward keeps where a program has a backward; else it is scratch.
  bool shows_training() const {
    return failure_.task == Task::training ||
           std::any_of(failure_.holders.begin(), failure_.holders.end(), [](const Holder& holder) {
             return contains(holder.name, "jvp(") || contains(holder.name, "transpose(") ||
                    contains(holder.name, "train") || contains(holder.name, "grad");
           });
  }

  void composition() {
    const int64_t parameters = *held("parameter");
    const int64_t temporaries = *held("temp");
    const int64_t outputs = held("maybe_live_out").value_or(0);
    if (outputs > std::max(parameters, temporaries)) {
      return is(Cause::device_full, Confidence::medium,
                fmt::format("The program's outputs need {} beside {} for temporaries", format_bytes(outputs),
                            format_bytes(temporaries)));
    }
    const Cause temporary = shows_training() ? Cause::activations : Cause::workspace;
    is(temporaries >= parameters ? temporary : Cause::parameters_and_optimizer, Confidence::medium,
       fmt::format("The program needs {} for its arguments and {} for temporaries", format_bytes(parameters),
                   format_bytes(temporaries)));
  }

  void library() {
    is(Cause::workspace, Confidence::medium,
       fmt::format("{} found no device memory: a library needs its own beside the tensors", failure_.subject));
  }

  // What is reserved at the start is a share of the card; where the reserve grows, it grows by powers of two.
  bool reserve_grows() const {
    return failure_.requested_bytes && std::has_single_bit(static_cast<uint64_t>(wanted()));
  }

  void preallocation() {
    if (reserve_grows()) {
      return is(Cause::device_full, Confidence::low,
                fmt::format("The allocator's reserve could not grow by {}", text(failure_.requested_bytes)));
    }
    is(Cause::other_process, Confidence::low,
       fmt::format("{} could not reserve {} when it started: someone else already holds part of the device",
                   failure_.framework == Framework::jax ? "JAX" : "TensorFlow", text(failure_.requested_bytes)));
  }

  // Someone unknown who gives no figure may have meant another memory.
  void host() {
    const bool sure = failure_.framework != Framework::unknown || failure_.requested_bytes;
    is(Cause::host_memory, sure ? Confidence::high : Confidence::medium,
       fmt::format("The host refused {}: RAM, not the device, is what ran out", text(failure_.requested_bytes)));
  }

  void killed() {
    is(Cause::host_memory, Confidence::high,
       fmt::format("The kernel ran out of RAM and killed {}, which held {}",
                   failure_.subject.empty() ? "a process" : failure_.subject, text(failure_.process_bytes)));
  }

  void pinned() {
    is(Cause::pinned_host_memory, failure_.framework == Framework::torch ? Confidence::medium : Confidence::high,
       "Page-locked host memory was refused; the driver reports it as a CUDA error, but the device is not full");
  }

  void cgroup() {
    const std::string state = failure_.allowed_bytes ? fmt::format(" ({} of {} in use)", text(failure_.allocated_bytes),
                                                                   text(failure_.allowed_bytes))
                                                     : "";
    is(Cause::cgroup_limit, Confidence::high,
       fmt::format("The memory limit of the cgroup was reached{}, and {} was killed", state,
                   failure_.subject.empty() ? "a process" : failure_.subject));
  }

  void worker() {
    is(Cause::host_memory, Confidence::medium,
       failure_.subject +
           " was killed from outside; on most machines only the kernel's out-of-memory killer does that");
    diagnosis_.headline[0] = static_cast<char>(std::toupper(diagnosis_.headline[0]));
  }

  Situation situation() const {
    Situation result;
    result.cause = diagnosis_.cause;
    result.framework = failure_.framework;
    result.engine = failure_.engine;
    result.backend = failure_.backend;
    result.task = failure_.task;
    result.version = failure_.version;
    result.arena = failure_.arena;
    result.expandable_is_on = failure_.expandable_is_on;
    result.is_fallback = failure_.is_fallback;
    result.subject = failure_.subject;
    result.who = failure_.processes.empty() && !failure_.process_bytes ? "" : holder();
    result.place = failure_.place;
    result.requested_bytes = failure_.requested_bytes;
    result.limit_bytes = limit_bytes(failure_);
    if (!result.limit_bytes) result.limit_bytes = failure_.told_total_bytes;
    result.total_bytes = failure_.total_bytes;
    result.allowed_bytes = failure_.allowed_bytes;
    result.allocated_bytes = failure_.allocated_bytes;
    result.free_bytes = failure_.free_bytes;
    result.idle_bytes = failure_.unallocated_bytes;
    result.other_bytes = other_bytes_;
    result.process_bytes = failure_.process_bytes;
    result.padding_bytes = failure_.padding_bytes;
    return result;
  }

  const Failure failure_;
  const MemorySummary* summary_;
  OptionalBytes other_bytes_;
  Diagnosis diagnosis_;
};

}  // namespace

Diagnosis diagnose(const Failure& failure, const MemorySummary* summary) { return Verdict(failure, summary).decide(); }

Diagnosis diagnose(const MemorySummary& summary) {
  Diagnosis diagnosis;
  diagnosis.framework = Framework::torch;
  diagnosis.device = summary.device;
  diagnosis.line = summary.line;
  diagnosis.cause = summary.ooms > 0 ? Cause::device_full : Cause::healthy;
  diagnosis.confidence = summary.ooms > 0 ? Confidence::low : Confidence::medium;
  diagnosis.headline = summary.ooms > 0
                           ? fmt::format("{} requests failed; the table does not say of what size", summary.ooms)
                           : "No request failed";
  if (summary.reserved_bytes && summary.allocated_bytes && *summary.reserved_bytes >= *summary.allocated_bytes) {
    diagnosis.accounts.push_back({"reserved by the allocator",
                                  *summary.reserved_bytes,
                                  {{"live tensors", *summary.allocated_bytes},
                                   {"free in the allocator", *summary.reserved_bytes - *summary.allocated_bytes}}});
  }
  if (summary.allocated_peak_bytes) diagnosis.facts.push_back({"peak of live tensors", summary.allocated_peak_bytes});
  if (summary.reserved_peak_bytes) diagnosis.facts.push_back({"peak of reserved", summary.reserved_peak_bytes});
  Situation situation;
  situation.cause = diagnosis.cause;
  situation.framework = Framework::torch;
  add_remedies(situation, diagnosis);
  return diagnosis;
}

}  // namespace plimsoll::explain
