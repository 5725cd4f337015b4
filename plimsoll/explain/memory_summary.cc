#include "plimsoll/explain/memory_summary.h"

#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

// "| Allocated memory      |   3891 MiB |   3987 MiB | ..." -> cells 0 and 1 after the name.
std::optional<int64_t> cell(std::string_view row, int index) {
  for (int bar = 0; bar < index + 2; ++bar) {
    const size_t at = row.find('|');
    if (at == std::string_view::npos) return std::nullopt;
    row.remove_prefix(at + 1);
  }
  return leading_size(row);
}

}  // namespace

std::optional<MemorySummary> start_memory_summary(std::string_view line) {
  const auto device = integer_after(line, "memory summary, device ID ");
  if (!device) return std::nullopt;
  MemorySummary summary;
  summary.device = std::to_string(*device);
  return summary;
}

bool add_to_memory_summary(std::string_view line, MemorySummary& summary) {
  const std::string_view row = trim(line);
  if (!row.starts_with("|")) return false;
  const std::string_view name = trim(row.substr(1, row.find('|', 1) - 1));
  if (contains(row, "OOMs: ")) {
    summary.ooms = integer_after(row, "OOMs: ").value_or(0);
    summary.retries = integer_after(row, "Malloc retries: ").value_or(0);
  } else if (name == "Allocated memory") {
    summary.allocated_bytes = cell(row, 0);
    summary.allocated_peak_bytes = cell(row, 1);
  } else if (name == "Requested memory") {
    summary.requested_bytes = cell(row, 0);
  } else if (name == "GPU reserved memory") {
    summary.reserved_bytes = cell(row, 0);
    summary.reserved_peak_bytes = cell(row, 1);
  } else if (name == "Non-releasable memory") {
    summary.non_releasable_bytes = cell(row, 0);
  }
  return true;
}

}  // namespace plimsoll::explain
