// The ranks that this thread's run is one of, for kernels that wait for the others: those that are bound while it is
// set keep it. A thread of its own for each rank is how tests have several in one process.
#pragma once

#include <memory>

#include "plimsoll/device/communicator.h"

namespace plimsoll::kernels {

// Null: this run is alone.
void use_communicator(std::shared_ptr<device::Communicator> ranks);
std::shared_ptr<device::Communicator> communicator();

// The same for a while.
class CommunicatorScope {
 public:
  explicit CommunicatorScope(std::shared_ptr<device::Communicator> ranks) : before_(communicator()) {
    use_communicator(std::move(ranks));
  }
  ~CommunicatorScope() { use_communicator(before_); }
  CommunicatorScope(const CommunicatorScope&) = delete;
  CommunicatorScope& operator=(const CommunicatorScope&) = delete;

 private:
  std::shared_ptr<device::Communicator> before_;
};

}  // namespace plimsoll::kernels
