// Under a limit that holds [384,192] in f16 but not in f32: the f32 request fails with a report of who holds what, the
// f16 request succeeds, and the process goes on.
#include <fmt/format.h>

#include <cstring>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/file_pages.h"
#include "plimsoll/memory/pool.h"

using namespace plimsoll;

namespace {

Block allocate(Pool& pool, const TensorSpec& spec, uint32_t tag) {
  const Block block = pool.allocate({.bytes = spec.bytes(), .tag = tag, .spec = &spec, .op = "matmul"});
  std::memset(block.data, 0, static_cast<size_t>(block.bytes));
  fmt::print("{:<14} {:>12} allocated, {} of {} in use\n", spec.text(), format_bytes(block.bytes),
             format_bytes(pool.stats().live_bytes), format_bytes(pool.budget().bytes));
  return block;
}

// Whether the request is refused, with a report that adds up.
bool is_refused(Pool& pool, const TensorSpec& spec, uint32_t tag) {
  try {
    pool.free(allocate(pool, spec, tag));
    return false;
  } catch (const ResourceExhausted& error) {
    fmt::print("\n{}\n", error.what());
    return error.report().live_bytes == pool.stats().live_bytes && error.report().requested_bytes == spec.bytes();
  }
}

}  // namespace

int main() {
  const Shape shape({384, 192});
  const TensorSpec weight{DType::f32, Shape({192, 384})};
  FilePages pages = FilePages::host(4 * kKiB);
  trace::Recorder recorder(1000);
  Pool pool(pages, {512 * kKiB, "this example"}, recorder);

  const Block parameters = allocate(pool, weight, pool.tag(Category::parameter, "fc.weight"));
  const uint32_t output = pool.tag(Category::activation, "fc.out");
  if (!is_refused(pool, {DType::f32, shape}, output)) return 1;
  const Block half = allocate(pool, {DType::f16, shape}, output);
  pool.free(half);
  pool.free(parameters);

  pool.free(allocate(pool, {DType::f32, shape}, output));  // the process goes on, and now f32 fits too
  return pool.stats().live_bytes == 0 ? 0 : 1;
}
