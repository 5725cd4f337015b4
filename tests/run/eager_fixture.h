// A context over a pool of its own, with a count of allocations and one that is refused.
#pragma once

#include "plimsoll/run/eager/context.h"
#include "tests/test_device.h"

namespace plimsoll::eager {

struct Workshop {
  explicit Workshop(int64_t budget_bytes = 64 << 20) : pool(*pages, {budget_bytes, "test"}, recorder) {}

  int64_t live_bytes() const { return pool.stats().live_bytes; }

  std::unique_ptr<PageSource> pages = device::find_device(test_device()).pages(0);  // of the smallest pages
  trace::Recorder recorder{0};
  Pool pool;
  int64_t allocations = 0;
  int64_t refused = 0;  // the allocation that fails, counted from 1; 0: none
  Context context{pool, {.device = on_test_device(), .allocate = [this](Pool& from, Request request) {
                           if (++allocations == refused) request.bytes = int64_t{1} << 40;
                           return from.allocate(request);
                         }}};
};

inline std::vector<float> ramp(int64_t count, float step = 0.1F) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(step * static_cast<float>(i % 17 - 8));
  return values;
}

inline Tensor ramp(Context& context, const Shape& shape, float step = 0.1F) {
  return context.from(shape, ramp(shape.elements(), step));
}

}  // namespace plimsoll::eager
