#include "plimsoll/base/duration.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

namespace plimsoll {

std::string format_seconds(double seconds) {
  constexpr double kMostCounted = 1e15;
  constexpr int64_t kMinute = 60;
  constexpr int64_t kHour = 60 * kMinute;
  if (!(seconds < kMostCounted)) return fmt::format("{:.3g} s", seconds);
  if (seconds > 0 && seconds < 9.5e-5) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 0.99995) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 59.9995) return fmt::format("{:.3f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < kHour) return fmt::format("{} min {:02} s", whole / kMinute, whole % kMinute);
  const int64_t minutes = (whole + kMinute / 2) / kMinute;
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

}  // namespace plimsoll
