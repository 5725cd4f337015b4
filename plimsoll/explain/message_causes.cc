#include <fmt/format.h>

#include <algorithm>

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
  Verdict(const Failure& failure, const MemorySummary* summary) : failure_(failure), summary_(summary) {}

  Diagnosis decide() {
    diagnosis_.framework = failure_.framework;
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
    return std::move(diagnosis_);
  }

 private:
  void is(Cause cause, Confidence confidence, std::string headline, std::vector<Remedy> remedies) {
    settle(diagnosis_, cause, confidence, std::move(headline), std::move(remedies));
  }

  void choose() {
    if (failure_.garbage_size || (failure_.arena == Arena::device && wanted() >= kGarbage)) return garbage();
    switch (failure_.arena) {
      case Arena::host:
        return failure_.framework == Framework::kernel ? killed() : host();
      case Arena::pinned_host:
        return pinned();
      case Arena::shared_memory:
        return shared();
      case Arena::cgroup:
        return cgroup();
      case Arena::worker:
        return worker();
      case Arena::device_direct:
        return failure_.subject == "preallocation" ? preallocation() : direct();
      default:
        return device();
    }
  }

  int64_t wanted() const { return failure_.requested_bytes.value_or(0); }
  int64_t holes() const { return failure_.unallocated_bytes.value_or(0); }
  bool knows_limit() const { return limit_bytes(failure_).has_value(); }
  int64_t limit() const { return limit_bytes(failure_).value_or(INT64_MAX); }

  void garbage() {
    const std::string what =
        failure_.subject.empty() ? text(failure_.requested_bytes) : "a tensor of sizes " + failure_.subject;
    is(Cause::garbage_size, Confidence::high,
       fmt::format("{} was asked for, which no memory has: the size itself is wrong",
                   failure_.requested_bytes || !failure_.subject.empty() ? what : "More than 1 EB"),
       {remedy::check_shape()});
  }

  void device() {
    if (knows_limit() && wanted() > limit()) return too_large();
    if (is_fragmented()) return fragmented();
    if (const auto held = others(failure_);
        held && *held >= wanted() && *held * 10 >= failure_.total_bytes.value_or(0)) {
      return other_process(*held, Confidence::high);
    }
    if (is_capped()) return capped();
    if (const auto held = outside(failure_); held && *held * 4 >= limit() && *held >= wanted())
      return outside_framework(*held);
    if (const auto held = unexplained(failure_); held && *held * 4 >= *failure_.total_bytes && *held >= wanted()) {
      return other_process(*held, Confidence::medium);
    }
    full();
  }

  // Free inside the allocator, enough for the request, and yet refused.
  bool is_fragmented() const {
    if (failure_.largest_free_bytes && holes() >= wanted() && *failure_.largest_free_bytes < wanted()) return true;
    if (failure_.framework != Framework::torch || !failure_.allocated_bytes || !failure_.requested_bytes) return false;
    return holes() >= wanted();
  }

  bool is_capped() const {
    if (failure_.framework == Framework::onnxruntime && failure_.free_bytes) return true;
    if (!failure_.free_bytes || *failure_.free_bytes < wanted() || !failure_.requested_bytes) return false;
    return !failure_.allowed_bytes || !failure_.total_bytes || *failure_.allowed_bytes < *failure_.total_bytes;
  }

  void too_large() {
    const bool cap = failure_.allowed_bytes && (!failure_.total_bytes || wanted() <= *failure_.total_bytes);
    const char* what = failure_.framework == Framework::mlx ? "the largest buffer"
                       : cap                                ? "the cap"
                                                            : "the whole device";
    std::vector<Remedy> remedies;
    if (cap && failure_.total_bytes) {
      remedies.push_back(remedy::raise_torch_cap(*failure_.total_bytes - *failure_.allowed_bytes, 1.0));
    }
    if (failure_.framework == Framework::mlx) remedies.push_back(remedy::mlx_limits());
    if (failure_.framework == Framework::jax) remedies.push_back(remedy::xla_remat());
    remedies.push_back(remedy::split_request(failure_.framework, wanted(), limit()));
    is(Cause::request_too_large, Confidence::high,
       fmt::format("One request of {} is larger than {} of {}: freeing everything else would not help",
                   text(failure_.requested_bytes), what, text(limit_bytes(failure_))),
       std::move(remedies));
  }

  std::string_view torch_variable() const {
    return contains(failure_.message, "PYTORCH_ALLOC_CONF") ? "PYTORCH_ALLOC_CONF" : "PYTORCH_CUDA_ALLOC_CONF";
  }

  void fragmented() {
    std::vector<Remedy> remedies;
    if (failure_.framework == Framework::torch) {
      if (!failure_.expandable_is_on) remedies.push_back(remedy::expandable_segments(torch_variable(), holes()));
      remedies.push_back(remedy::empty_cache(std::nullopt));
      if (!failure_.expandable_is_on) {
        remedies.push_back(remedy::limit_splitting(torch_variable(), wanted(), std::nullopt));
      }
    } else {
      remedies = {remedy::async_allocator()};
    }
    is(Cause::fragmentation, holes() >= 2 * wanted() ? Confidence::high : Confidence::medium,
       fmt::format("{} is free inside the allocator and {} was asked for, but no free piece is that large",
                   format_bytes(holes()), text(failure_.requested_bytes)),
       std::move(remedies));
  }

  void other_process(int64_t bytes, Confidence confidence) {
    const std::string who = failure_.processes.empty() ? "the other processes"
                            : failure_.processes.size() == 1
                                ? failure_.processes[0].name
                                : fmt::format("{} other processes", failure_.processes.size());
    is(Cause::other_process, confidence,
       fmt::format("{} of the device is held by {}; the request was {}", format_bytes(bytes),
                   confidence == Confidence::high ? who : "others, or outside the framework",
                   text(failure_.requested_bytes)),
       {remedy::stop_other_processes(who, bytes)});
  }

  void capped() {
    const bool said = failure_.allowed_bytes.has_value();
    std::vector<Remedy> remedies;
    if (failure_.framework == Framework::onnxruntime) {
      remedies.push_back(remedy::ort_arena());
    } else if (said && failure_.total_bytes) {
      const int64_t gain = std::min(*failure_.free_bytes, *failure_.total_bytes - *failure_.allowed_bytes);
      const double fraction = std::min(
          1.0, static_cast<double>(*failure_.allowed_bytes + gain) / static_cast<double>(*failure_.total_bytes));
      remedies.push_back(remedy::raise_torch_cap(gain, fraction));
    }
    if (failure_.framework == Framework::torch) remedies.push_back(remedy::record_snapshot());
    const std::string cap = said ? "the process's cap of " + text(failure_.allowed_bytes) : "a limit below the device";
    is(Cause::cap_below_card, said ? Confidence::high : Confidence::medium,
       failure_.framework == Framework::onnxruntime
           ? fmt::format("The arena's own limit leaves {} for a request of {}", text(failure_.free_bytes),
                         text(failure_.requested_bytes))
           : fmt::format("{} is reached while the device still has {} free", cap, text(failure_.free_bytes)),
       std::move(remedies));
    diagnosis_.headline[0] = static_cast<char>(std::toupper(diagnosis_.headline[0]));
  }

  void outside_framework(int64_t bytes) {
    is(Cause::outside_framework, Confidence::high,
       fmt::format("{} of this process's memory is not PyTorch's: the CUDA context, NCCL, cuDNN or another library",
                   format_bytes(bytes)),
       {remedy::lazy_modules(), remedy::smaller_workspace()});
  }

  // Live tensors fill what may be had. Of what kind they are, a message does not tell.
  void full() {
    if (failure_.framework == Framework::jax && has_composition()) return composition();
    std::vector<Remedy> remedies;
    switch (failure_.framework) {
      case Framework::torch:
        remedies = {remedy::smaller_batch(std::nullopt), remedy::record_snapshot()};
        break;
      case Framework::tensorflow:
        remedies = {remedy::smaller_batch(std::nullopt)};
        break;
      case Framework::jax:
        remedies = {remedy::xla_remat(), remedy::xla_memory_fraction()};
        break;
      case Framework::onnxruntime:
        remedies = {remedy::ort_arena()};
        break;
      case Framework::ggml:
        remedies = {remedy::ggml_offload()};
        break;
      case Framework::plimsoll:
        remedies = {remedy::plimsoll_budget(failure_.allocated_bytes.value_or(0) + wanted())};
        break;
      default:
        break;
    }
    const bool known = knows_limit() && failure_.allocated_bytes.has_value();
    is(Cause::device_full,
       known                                          ? Confidence::high
       : failure_.free_bytes || failure_.used_percent ? Confidence::medium
                                                      : Confidence::low,
       full_headline(), std::move(remedies));
  }

  std::string full_headline() const {
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
    if (!failure_.requested_bytes) return "The device's memory is full; the message gives no figures";
    return fmt::format("{} could not be had; the message does not say what holds the rest",
                       text(failure_.requested_bytes));
  }

  // XLA's buffer assignment tells parameters from temporaries.
  OptionalBytes held(std::string_view kind) const {
    for (const Holder& holder : failure_.holders) {
      if (contains(holder.name, kind) && !holder.name.starts_with("buffer ")) return holder.bytes;
    }
    return std::nullopt;
  }

  bool has_composition() const { return held("parameter") && held("temp"); }

  void composition() {
    const int64_t parameters = *held("parameter");
    const int64_t temporaries = *held("temp");
    const bool activations = temporaries >= parameters;
    is(activations ? Cause::activations : Cause::parameters_and_optimizer, Confidence::medium,
       fmt::format("The program needs {} for its arguments and {} for temporaries", format_bytes(parameters),
                   format_bytes(temporaries)),
       {remedy::xla_remat(), remedy::xla_memory_fraction()});
  }

  void direct() {
    if (!failure_.subject.empty()) {
      return is(Cause::workspace, Confidence::medium,
                fmt::format("{} found no device memory: a library needs its own beside the tensors", failure_.subject),
                {remedy::smaller_workspace(), remedy::record_snapshot()});
    }
    is(Cause::outside_framework, Confidence::low,
       "The driver refused memory that was not asked through PyTorch's allocator: a context, a library or a pinned "
       "buffer; the traceback would tell",
       {remedy::stop_other_processes("other users of the device", std::nullopt), remedy::lazy_modules(),
        remedy::unpin()});
  }

  void preallocation() {
    is(Cause::other_process, Confidence::low,
       fmt::format("TensorFlow could not reserve {} when it started: someone else already holds part of the device",
                   text(failure_.requested_bytes)),
       {remedy::stop_other_processes("the other users of the device", std::nullopt), remedy::grow_on_demand()});
  }

  void host() {
    std::vector<Remedy> remedies = {wanted() >= kTiB ? remedy::check_shape()
                                                     : remedy::stream_from_disk(failure_.requested_bytes)};
    is(Cause::host_memory, Confidence::high,
       fmt::format("The host refused {}: RAM, not the device, is what ran out", text(failure_.requested_bytes)),
       std::move(remedies));
  }

  void killed() {
    is(Cause::host_memory, Confidence::high,
       fmt::format("The kernel ran out of RAM and killed {}, which held {}", failure_.subject,
                   text(failure_.process_bytes)),
       {remedy::fewer_workers(failure_.process_bytes), remedy::stream_from_disk(std::nullopt)});
  }

  void pinned() {
    is(Cause::pinned_host_memory, Confidence::medium,
       "Page-locked host memory was refused; the driver reports it as a CUDA error, but the device is not full",
       {remedy::unpin(), remedy::fewer_workers(std::nullopt)});
  }

  void shared() {
    is(Cause::shared_memory, Confidence::high, "The loader's workers filled /dev/shm, which is small in containers",
       {remedy::more_shared_memory(), remedy::fewer_workers(std::nullopt)});
  }

  void cgroup() {
    const std::string state = failure_.allowed_bytes ? fmt::format(" ({} of {} in use)", text(failure_.allocated_bytes),
                                                                   text(failure_.allowed_bytes))
                                                     : "";
    is(Cause::cgroup_limit, Confidence::high,
       fmt::format("The memory limit of the cgroup was reached{}, and {} was killed", state,
                   failure_.subject.empty() ? "a process" : failure_.subject),
       {remedy::raise_cgroup_limit(failure_.allowed_bytes), remedy::fewer_workers(failure_.process_bytes)});
  }

  void worker() {
    is(Cause::host_memory, Confidence::medium,
       failure_.subject + " was killed from outside; on most machines only the kernel's out-of-memory killer does that",
       {remedy::fewer_workers(std::nullopt), remedy::raise_cgroup_limit(std::nullopt)});
  }

  const Failure& failure_;
  const MemorySummary* summary_;
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
  if (summary.ooms > 0) diagnosis.remedies = {remedy::record_snapshot()};
  return diagnosis;
}

}  // namespace plimsoll::explain
