// A context with memory of its own on a device, under a budget: pages, pool and context in one.
#pragma once

#include "plimsoll/run/eager/context.h"

namespace plimsoll::eager {

class Host {
 public:
  explicit Host(const Budget& budget, const kernels::DeviceOptions& device = {})
      : pages_(device::find_device(device.device).pages(budget.bytes)),
        pool_(*pages_, budget, recorder_),
        context_(pool_, {.device = device}) {}

  Context& context() { return context_; }
  Pool& pool() { return pool_; }

 private:
  std::unique_ptr<PageSource> pages_;
  trace::Recorder recorder_{0};
  Pool pool_;
  Context context_;
};

}  // namespace plimsoll::eager
