#include "plimsoll/train/data/source.h"

#include "plimsoll/base/bytes.h"

namespace plimsoll::train::data {

int64_t sample_bytes(const std::vector<Field>& fields) {
  int64_t bytes = 0;
  for (const Field& field : fields) {
    const auto sum = checked_add(bytes, field.spec.bytes());
    if (!sum) throw ArgumentError("a sample's fields together have more bytes than fit in 63 bits");
    bytes = *sum;
  }
  return bytes;
}

}  // namespace plimsoll::train::data
