#include "plimsoll/explain/message_evidence.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "plimsoll/base/bytes.h"

namespace plimsoll::explain {
namespace {

int64_t holes(const Failure& failure) { return failure.unallocated_bytes.value_or(0); }

int64_t sum(const std::vector<Holder>& holders) {
  return std::accumulate(holders.begin(), holders.end(), int64_t{0},
                         [](int64_t total, const Holder& holder) { return total + holder.bytes; });
}

// The whole device: every byte is free, somebody's, or told to be nobody's that is known.
void add_device_account(const Failure& failure, Diagnosis& diagnosis) {
  Account account{"the device", *failure.total_bytes, {{"free", *failure.free_bytes}}};
  int64_t rest = *failure.total_bytes - *failure.free_bytes;
  const auto add = [&](std::string name, int64_t bytes) {
    bytes = std::min(bytes, rest);
    if (bytes > 0) account.parts.push_back({std::move(name), bytes});
    rest -= bytes;
  };
  for (const Holder& process : failure.processes) add(process.name, process.bytes);
  add("live tensors", failure.allocated_bytes.value_or(0));
  add("free in the allocator", holes(failure));
  add("outside the framework", outside(failure).value_or(0));
  add("not explained by the message", rest);
  diagnosis.accounts.push_back(std::move(account));
}

void add_process_account(const Failure& failure, Diagnosis& diagnosis) {
  const int64_t beyond = outside(failure).value_or(0);
  diagnosis.accounts.push_back({"this process",
                                *failure.allocated_bytes + holes(failure) + beyond,
                                {{"live tensors", *failure.allocated_bytes},
                                 {"free in the allocator", holes(failure)},
                                 {"outside the framework", beyond}}});
}

bool is_buffer(const Holder& holder) { return holder.name.starts_with("buffer "); }

// What the framework or the kernel lists; single buffers are facts, since they are also in the sums of their kinds.
void add_listed(const Failure& failure, Diagnosis& diagnosis) {
  const bool kernel = failure.framework == Framework::kernel;
  Account account{kernel ? "the killed process" : "as the framework lists it", 0, {}};
  std::copy_if(failure.holders.begin(), failure.holders.end(), std::back_inserter(account.parts),
               [](const Holder& holder) { return !is_buffer(holder); });
  account.total_bytes = sum(account.parts);
  if (!account.parts.empty()) diagnosis.accounts.push_back(std::move(account));
  for (const Holder& holder : failure.holders) {
    if (is_buffer(holder)) diagnosis.facts.push_back({holder.name, holder.bytes});
  }
}

void add_accounts(const Failure& failure, Diagnosis& diagnosis) {
  const bool device = failure.total_bytes && failure.free_bytes && *failure.free_bytes <= *failure.total_bytes;
  if (device) add_device_account(failure, diagnosis);
  if (outside(failure).value_or(0) > 0) add_process_account(failure, diagnosis);
  add_listed(failure, diagnosis);
}

void add_largest_processes(const Failure& failure, Diagnosis& diagnosis) {
  auto processes = failure.processes;
  std::sort(processes.begin(), processes.end(), [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  processes.resize(std::min<size_t>(processes.size(), 5));
  for (const Holder& process : processes) diagnosis.facts.push_back({"resident: " + process.name, process.bytes});
}

void add_facts(const Failure& failure, const MemorySummary* summary, Diagnosis& diagnosis) {
  const auto fact = [&](std::string what, OptionalBytes bytes) {
    if (bytes) diagnosis.facts.push_back({std::move(what), bytes});
  };
  fact("asked for", failure.requested_bytes);
  if (!failure.total_bytes) fact("the device, as another line tells it", failure.told_total_bytes);
  fact("cap of the process", failure.allowed_bytes);
  fact("in private pools (CUDA graphs)", failure.private_pool_bytes);
  fact("largest free piece", failure.largest_free_bytes);
  fact("other allocations", failure.other_bytes);
  fact("of the temporaries is padding to tiles", failure.padding_bytes);
  if (failure.suggests_expandable && diagnosis.cause != Cause::fragmentation) {
    fact("free in the allocator: PyTorch's hint about fragmentation could win back no more", failure.unallocated_bytes);
  }
  if (summary != nullptr) {
    fact("peak of live tensors (memory_summary)", summary->allocated_peak_bytes);
    fact("pinned in part-used segments (memory_summary)", summary->non_releasable_bytes);
  }
  if (failure.framework == Framework::kernel) add_largest_processes(failure, diagnosis);
}

}  // namespace

Failure with_own_process(Failure failure) {
  // Some drivers tell 0 bytes of a process that holds the card.
  const bool told = failure.process_bytes && failure.allocated_bytes;
  if (told && *failure.process_bytes < *failure.allocated_bytes / 2) failure.process_bytes.reset();
  if (failure.process_bytes || !failure.allocated_bytes || failure.processes.empty()) return failure;
  const int64_t reserved = *failure.allocated_bytes + holes(failure);
  const int64_t slack = std::max(2 * kGiB, failure.total_bytes.value_or(0) / 20);  // a context, libraries
  const auto distance = [&](const Holder& process) { return std::abs(process.bytes - reserved); };
  const auto own = std::min_element(failure.processes.begin(), failure.processes.end(),
                                    [&](const Holder& a, const Holder& b) { return distance(a) < distance(b); });
  // Who is alone on the card is the one that failed, though it holds more beside its tensors.
  const bool alone = failure.processes.size() == 1 && reserved >= own->bytes / 2;
  if (own->bytes + reserved / 50 < reserved || (!alone && own->bytes > reserved + slack)) return failure;
  failure.process_bytes = own->bytes;
  failure.processes.erase(own);
  return failure;
}

OptionalBytes others(const Failure& failure) {
  if (!failure.processes.empty()) return sum(failure.processes);
  if (!failure.total_bytes || !failure.free_bytes || !failure.process_bytes) return std::nullopt;
  return std::max<int64_t>(0, *failure.total_bytes - *failure.free_bytes - *failure.process_bytes);
}

OptionalBytes outside(const Failure& failure) {
  if (!failure.process_bytes || !failure.allocated_bytes) return std::nullopt;
  return std::max<int64_t>(0, *failure.process_bytes - *failure.allocated_bytes - holes(failure));
}

OptionalBytes unexplained(const Failure& failure) {
  if (failure.process_bytes || !failure.total_bytes || !failure.free_bytes || !failure.allocated_bytes) {
    return std::nullopt;
  }
  return std::max<int64_t>(0, *failure.total_bytes - *failure.free_bytes - *failure.allocated_bytes - holes(failure));
}

void add_evidence(const Failure& failure, const MemorySummary* summary, Diagnosis& diagnosis) {
  add_accounts(failure, diagnosis);
  add_facts(failure, summary, diagnosis);
}

}  // namespace plimsoll::explain
