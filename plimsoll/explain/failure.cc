#include "plimsoll/explain/failure.h"

#include <algorithm>

namespace plimsoll::explain {

OptionalBytes limit_bytes(const Failure& failure) {
  if (!failure.allowed_bytes) return failure.total_bytes;
  return failure.total_bytes ? std::min(*failure.allowed_bytes, *failure.total_bytes) : failure.allowed_bytes;
}

Figures figures_of(const Failure& failure) {
  Figures figures{failure.processes.size() + (failure.garbage_size ? 8 : 0), 0};
  for (const OptionalBytes& field :
       {failure.requested_bytes, failure.total_bytes, failure.free_bytes, failure.allowed_bytes,
        failure.allocated_bytes, failure.unallocated_bytes, failure.process_bytes, failure.other_bytes}) {
    figures.count += field ? 1 : 0;
    figures.sum += static_cast<double>(field.value_or(0));
  }
  return figures;
}

bool operator>(const Figures& a, const Figures& b) {
  return a.count > b.count || (a.count == b.count && a.sum > b.sum);
}

}  // namespace plimsoll::explain
