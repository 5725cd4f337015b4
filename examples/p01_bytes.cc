// Bytes of tensors, worked out before anything is allocated: data and padding told apart.
#include <fmt/format.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/spec.h"
#include "plimsoll/memory/pool.h"

using namespace plimsoll;

namespace {

struct Case {
  TensorSpec spec;
  int64_t expected_bytes;
};

// Prints what the tensor takes and whether that is what it should be.
bool check(const Case& tensor) {
  const int64_t bytes = tensor.spec.bytes();
  const int64_t placed = align_up(bytes, Pool::kAlignment);
  fmt::print("{:<18} {:>12} bytes = {:>10}, and {:>3} of padding in a pool\n", tensor.spec.text(), format_count(bytes),
             format_bytes(bytes), placed - bytes);
  return bytes == tensor.expected_bytes;
}

}  // namespace

int main() {
  const Shape square({384, 192});
  const Case cases[] = {
      {{DType::f32, Shape({10000, 1000})}, 40'000'000},
      {{DType::f32, square}, 294'912},
      {{DType::f16, square}, 147'456},
      {{DType::i8, square}, 73'728},
      {{DType::f32, Shape({17, 23, 31})}, 48'484},
      {{DType::i8, Shape({257})}, 257},
      {{DType::f64, Shape({3, 0, 5})}, 0},
  };
  bool all_right = format_bytes(40'000'000) == "38.15 MiB";
  for (const Case& tensor : cases) all_right = check(tensor) && all_right;
  return all_right ? 0 : 1;
}
