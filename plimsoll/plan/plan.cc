#include "plimsoll/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/plan/rewrite.h"
#include "plimsoll/program/text.h"

namespace plimsoll::plan {
namespace {

using kernels::Lowered;
using program::Program;
using program::Value;

// FNV-1a, 64 bits.
class Hash {
 public:
  void add(std::string_view text) {
    for (const char c : text) add_byte(static_cast<uint8_t>(c));
  }
  void add(int64_t number) {
    for (int i = 0; i < 8; ++i) add_byte(static_cast<uint8_t>(static_cast<uint64_t>(number) >> (8 * i)));
  }
  std::string text() const { return fmt::format("{:016x}", state_); }

 private:
  void add_byte(uint8_t byte) { state_ = (state_ ^ byte) * 0x100000001b3U; }
  uint64_t state_ = 0xcbf29ce484222325U;
};

// Says in which of the figures two programs differ.
std::string difference(const Fingerprint& plan, const Fingerprint& program) {
  if (plan.ops != program.ops || plan.values != program.values) {
    return fmt::format("it is for {} ops and {} values, this program has {} and {}", plan.ops, plan.values, program.ops,
                       program.values);
  }
  if (plan.threads != program.threads) {
    return fmt::format("it is for {} threads, this program is prepared for {}", plan.threads, program.threads);
  }
  if (plan.text_hash != program.text_hash) {
    return fmt::format("the text of its program has the hash {}, this one {}: other sizes, attributes or names",
                       plan.text_hash, program.text_hash);
  }
  return "the kernels of its program want other scratch than they do here";
}

// Takes offsets from the steps of a plan to the buffers of the program that was made of them.
class Placer {
 public:
  Placer(const Program& program, Liveness liveness)
      : program_(program), memory_{std::move(liveness), {}}, known_(memory_.liveness.buffers.size(), false) {
    memory_.placement.offsets.resize(memory_.liveness.buffers.size(), 0);
  }

  void put(Value owner, int64_t offset) { put(memory_.storage_of(owner), offset); }
  void put_scratch(int32_t op, int64_t offset) {
    if (const Storage* scratch = memory_.scratch_of(op)) put(*scratch, offset);
  }

  MemoryPlan finish(int64_t arena_bytes) && {
    for (const Storage& storage : memory_.liveness.storages) {
      if (storage.bytes == 0 || known_[static_cast<size_t>(storage.buffer)]) continue;
      throw ArgumentError(fmt::format("the plan gives %{} no place", program_[storage.owner].name));
    }
    memory_.placement.arena_bytes = arena_bytes;
    return std::move(memory_);
  }

 private:
  // A storage that could be made in place of another, and by this plan is not, gets a buffer of its own.
  void put(const Storage& found, int64_t offset) {
    Storage& storage = memory_.liveness.storages[static_cast<size_t>(&found - memory_.liveness.storages.data())];
    const auto shared = static_cast<size_t>(storage.buffer);
    if (known_[shared] && memory_.placement.offsets[shared] != offset) {
      storage.buffer = static_cast<int32_t>(memory_.liveness.buffers.size());
      memory_.liveness.buffers.push_back({storage.bytes, storage.first, storage.end, false});
      memory_.placement.offsets.push_back(0);
      known_.push_back(false);
    }
    memory_.placement.offsets[static_cast<size_t>(storage.buffer)] = offset;
    known_[static_cast<size_t>(storage.buffer)] = true;
  }

  const Program& program_;
  MemoryPlan memory_;
  std::vector<bool> known_;  // by buffer
};

}  // namespace

std::string_view name(StepKind kind) {
  constexpr std::string_view kNames[] = {"run", "recompute", "spill", "fetch"};
  return kNames[static_cast<size_t>(kind)];
}

Fingerprint fingerprint(const Lowered& lowered) {
  Hash text;
  text.add(program::write_program(lowered.program));
  Hash scratch;
  for (const int64_t bytes : lowered.scratch_bytes()) scratch.add(bytes);
  return {text.text(), scratch.text(), static_cast<int64_t>(lowered.program.ops.size()),
          static_cast<int64_t>(lowered.program.values.size()), lowered.threads};
}

std::string Refusal::text() const {
  std::string text = fmt::format("smallest budget: {} (no plan can be below {})\n", format_bytes(smallest_bytes),
                                 format_bytes(bound_bytes));
  text += fmt::format("set by {}: {} that come in", binding_op, format_bytes(resident_bytes));
  for (const Held& held : binding) text += fmt::format(", {} {}", held.name, format_bytes(held.bytes));
  return text;
}

void require_same_program(const Plan& plan, const Lowered& lowered) {
  const Fingerprint found = fingerprint(lowered);
  if (plan.program == found) return;
  throw ArgumentError(fmt::format("the plan is for another program: {}", difference(plan.program, found)));
}

Applied apply(const Plan& plan, const Lowered& lowered) {
  require_same_program(plan, lowered);
  Rewritten rewritten = rewrite(lowered, plan.steps);
  const std::vector<int64_t> scratch = rewritten.lowered.scratch_bytes();
  Placer placer(rewritten.lowered.program, find_liveness(rewritten.lowered.program, {.scratch_bytes = scratch}));
  for (const Placed& placed : plan.resident) placer.put(placed.owner, placed.offset);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    const Rewritten::Made& made = rewritten.steps[i];
    if (made.owners.size() != step.writes.size()) {
      throw ArgumentError(fmt::format("step {} of the plan has {} results, {} have a place", i, made.owners.size(),
                                      step.writes.size()));
    }
    for (size_t k = 0; k < made.owners.size(); ++k) placer.put(made.owners[k], step.writes[k].offset);
    placer.put_scratch(made.op, step.scratch_offset);
  }
  MemoryPlan memory = std::move(placer).finish(plan.arena_bytes);
  return {std::move(rewritten.lowered), std::move(memory)};
}

}  // namespace plimsoll::plan
