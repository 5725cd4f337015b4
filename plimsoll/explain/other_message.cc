// Plimsoll's own report, and Python's bare MemoryError.
#include "plimsoll/explain/failure.h"
#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

Failure of(Framework framework, Arena arena) {
  Failure failure;
  failure.framework = framework;
  failure.arena = arena;
  return failure;
}

// "OOM when allocating memory on cpu by allocator pool: 288.00 KiB asked for x, 100.00 KiB of 200.00 KiB in use", then
// an indented block.
std::optional<Failure> start_plimsoll(std::string_view line) {
  if (!contains(line, "OOM when allocating ") || !contains(line, " by allocator pool: ")) return std::nullopt;
  Failure failure = of(Framework::plimsoll, Arena::device);
  failure.device = between(line, " on ", " by allocator").value_or("");
  failure.requested_bytes = size_before(line, " asked");
  failure.subject = between(line, " asked for ", ",").value_or("");
  const auto rest = after(line, " asked").value_or("");
  failure.allocated_bytes = size_before(rest, " of ");
  failure.allowed_bytes = size_before(rest, " in use");
  return failure;
}

std::optional<Failure> start(std::string_view line) {
  if (auto failure = start_plimsoll(line)) return failure;
  const std::string_view text = trim(line);
  const bool fork = contains(text, "[Errno 12] Cannot allocate memory");
  if (text != "MemoryError" && !fork) return std::nullopt;
  Failure failure = of(Framework::unknown, Arena::host);
  failure.backend = Backend::cpu;
  return failure;
}

bool add(std::string_view line, Failure& failure) {
  if (failure.framework != Framework::plimsoll) return false;
  if (const auto largest = size_after(line, "  largest free: ")) failure.largest_free_bytes = largest;
  return contains(line, "  largest free: ") || contains(line, "  budget: ") || contains(line, "  asked: ") ||
         contains(line, "  live: ") || contains(line, "  reserved: ");
}

}  // namespace

const MessageForm kOtherForm = {start, add};

}  // namespace plimsoll::explain
