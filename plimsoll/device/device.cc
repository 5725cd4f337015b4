#include "plimsoll/device/device.h"

#include <fmt/format.h>

#include <charconv>

namespace plimsoll::device {
namespace {

// The N of "cuda:N", 0 for "cuda", -1 for what is neither.
int cuda_ordinal(std::string_view name) {
  if (name == "cuda") return 0;
  constexpr std::string_view kPrefix = "cuda:";
  if (!name.starts_with(kPrefix)) return -1;
  const std::string_view digits = name.substr(kPrefix.size());
  int ordinal = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  return error == std::errc() && end == digits.data() + digits.size() ? ordinal : -1;
}

bool& tf32_allowed() {
  static bool allowed = false;
  return allowed;
}

}  // namespace

void allow_tf32(bool allowed) { tf32_allowed() = allowed; }
bool allows_tf32() { return tf32_allowed(); }

KernelFault::KernelFault(const FaultRecord& found)
    : Error(fmt::format("op {}, operand {}: {} at place {} is out of range, expected {} to {}", found.op - 1,
                        found.operand, found.value, found.place, found.least, found.most)),
      found_(found) {}

std::unique_ptr<Kept> Stream::keep(const std::function<void()>& /*work*/) { return nullptr; }

std::optional<double> Device::seconds_of(Stream& /*stream*/, const std::function<void()>& /*work*/) {
  return std::nullopt;
}

Device& find_device(std::string_view name) {
  if (name == "cpu") return cpu_device();
  if (name == "sim") return sim_device();
  if (const int ordinal = cuda_ordinal(name); ordinal >= 0) return cuda_device(ordinal);
  constexpr std::string_view kCard = "cuda:";
  if (name.starts_with(kCard)) return paper_card(name.substr(kCard.size()));
  throw ArgumentError(fmt::format("there is no device {}, expected cpu or cuda", quote(name)));
}

}  // namespace plimsoll::device
