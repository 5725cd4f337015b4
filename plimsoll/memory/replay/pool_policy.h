// Our own Pool over simulated pages, as a policy to replay traces against.
#pragma once

#include <vector>

#include "plimsoll/memory/pool.h"
#include "plimsoll/memory/replay/policy.h"
#include "plimsoll/memory/simulated_pages.h"

namespace plimsoll::replay {

class PoolPolicy : public Policy {
 public:
  explicit PoolPolicy(const Device& device);
  ~PoolPolicy() override;

  std::string_view name() const override { return "pool"; }
  void allocate(uint32_t slot, int64_t bytes, int16_t stream) override;
  void free(uint32_t slot) override;
  PolicyStats stats() const override;

 private:
  SimulatedPages pages_;
  trace::Recorder recorder_{0};
  Pool pool_;
  std::vector<Block> blocks_;  // by slot; no memory when it is not in use
};

}  // namespace plimsoll::replay
