#include "plimsoll/explain/failure.h"

#include <algorithm>

namespace plimsoll::explain {

OptionalBytes limit_bytes(const Failure& failure) {
  if (!failure.allowed_bytes) return failure.total_bytes;
  return failure.total_bytes ? std::min(*failure.allowed_bytes, *failure.total_bytes) : failure.allowed_bytes;
}

}  // namespace plimsoll::explain
