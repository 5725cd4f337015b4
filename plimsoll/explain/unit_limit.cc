#include "plimsoll/explain/unit_limit.h"

#include <algorithm>

#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

bool is_of_systemd(const Failure& failure) {
  return failure.framework == Framework::systemd && failure.backend == Backend::cpu &&
         failure.sure == Confidence::medium;
}

OptionalBytes first_size(std::string_view text, std::initializer_list<std::string_view> fronts) {
  for (const std::string_view front : fronts) {
    if (const auto bytes = size_after(text, front)) return bytes;
  }
  return std::nullopt;
}

// Both are rounded to a tenth of their unit, and the killer comes a little before the limit.
bool is_reached(int64_t used, int64_t limit) { return limit > 0 && used >= limit - limit / 20; }

void judge(Failure& failure) {
  if (!failure.allowed_bytes || !failure.process_bytes) return;
  if (!is_reached(*failure.process_bytes, *failure.allowed_bytes)) return;
  failure.arena = Arena::cgroup;
  failure.says = Cause::cgroup_limit;
  failure.headline = "The unit reached its own MemoryMax of {allowed}, and the kernel killed its process";
}

}  // namespace

bool add_unit_limit(std::string_view line, Failure& failure) {
  if (!is_of_systemd(failure)) return false;
  const std::string_view status = after(line, "Memory: ").value_or("");
  OptionalBytes limit = first_size(line, {"MemoryMax=", "MemoryLimit="});
  OptionalBytes used = first_size(line, {"MemoryPeak="});
  if (!used) used = size_before(line, " memory peak");
  if (contains(status, "max: ") || contains(status, "limit: ")) {
    limit = first_size(status, {"max: ", "limit: "});
    used = first_size(status, {" peak: ", "(peak: "});
    if (!used) used = leading_size(status);
  }
  if (!limit && !used) return false;
  if (limit) failure.allowed_bytes = limit;
  if (used) failure.process_bytes = std::max(used, failure.process_bytes);
  judge(failure);
  return true;
}

void add_unit_limits(std::string_view before, Failure& failure) {
  constexpr size_t kNear = 4096;
  if (!is_of_systemd(failure)) return;
  std::string_view rest = before.substr(before.size() - std::min(before.size(), kNear));
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size() - 1);
    add_unit_limit(rest.substr(0, end + 1), failure);
    rest.remove_prefix(end + 1);
  }
}

}  // namespace plimsoll::explain
