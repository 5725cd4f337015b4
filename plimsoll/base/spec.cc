#include "plimsoll/base/spec.h"

#include <fmt/format.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"

namespace plimsoll {

int64_t TensorSpec::bytes() const {
  const auto bytes = checked_multiply(shape.elements(), element_bytes(dtype));
  if (!bytes) throw ArgumentError(fmt::format("a tensor {} has more than 2^63 bytes", text()));
  return *bytes;
}

std::string TensorSpec::text() const { return fmt::format("{}{}", name(dtype), shape.text()); }

}  // namespace plimsoll
