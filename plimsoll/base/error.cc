#include "plimsoll/base/error.h"

#include <fmt/format.h>

#include <system_error>

namespace plimsoll {

SystemError SystemError::from_errno(std::string_view doing, int error) {
  return SystemError(fmt::format("{} failed: {}", doing, std::generic_category().message(error)));
}

std::string Place::text() const {
  if (offset >= 0) return fmt::format("{} at byte {}", source, offset);
  if (line == 0) return source;
  if (column == 0) return fmt::format("{}:{}", source, line);
  return fmt::format("{}:{}:{}", source, line, column);
}

InputError::InputError(Place place, std::string_view found, std::string_view expected)
    : Error(fmt::format("{}: found {}, expected {}", place.text(), found, expected)), place_(std::move(place)) {}

InputError::InputError(Place place, std::string_view message)
    : Error(fmt::format("{}: {}", place.text(), message)), place_(std::move(place)) {}

std::string quote(std::string_view text) {
  constexpr size_t kMost = 60;
  std::string quoted = "'";
  for (const char c : text.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\x{:02x}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + (text.size() > kMost ? "'..." : "'");
}

}  // namespace plimsoll
