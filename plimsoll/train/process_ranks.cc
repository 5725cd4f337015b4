#include "plimsoll/train/process_ranks.h"

#include <unistd.h>

#include <algorithm>

#include "plimsoll/device/cuda/card_ranks.h"
#include "plimsoll/device/device.h"
#include "plimsoll/device/mpi.h"
#include "plimsoll/kernels/collective.h"
#include "plimsoll/kernels/device.h"

namespace plimsoll::train {
namespace {

std::shared_ptr<device::Communicator>& current() {
  static std::shared_ptr<device::Communicator> ranks;
  return ranks;
}

}  // namespace

std::shared_ptr<device::Communicator> join_ranks() {
  if (!current()) current() = device::join_mpi();
  kernels::use_communicator(current());
  return current();
}

const std::shared_ptr<device::Communicator>& joined_ranks() { return current(); }

std::string join_cards(const std::string& device) {
  if (!current() || !device.starts_with("cuda")) return device;
  const std::string name = device::card_of_rank(*current(), device);
  current() = device::join_cards(current(), device::find_device(name));
  kernels::use_communicator(current());
  return name;
}

void abort_ranks(int status) {
  if (current()) current()->abort(status);
}

void leave_ranks() {
  if (!current()) return;
  current()->barrier();
  kernels::use_communicator(nullptr);
  current().reset();
}

Budget agreed_budget(const Budget& budget, bool is_of_machine) {
  if (!current()) return budget;
  const bool is_shared = is_of_machine && current()->on_streams() == nullptr;
  const int64_t own = is_shared ? budget.bytes / current()->local_ranks() : budget.bytes;
  return {device::least_over(*current(), own), budget.source};
}

int agreed_threads(int asked) {
  if (!current()) return asked;
  const int usable = kernels::thread_count({});
  const bool is_bound = usable < static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));  // the launcher has shared them out
  const int share = is_bound ? usable : std::max(1, usable / current()->local_ranks());
  return static_cast<int>(device::least_over(*current(), asked > 0 ? asked : share));
}

}  // namespace plimsoll::train
