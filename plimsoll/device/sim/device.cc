// A device that is none: memory of the host behind addresses that fault, kernels of the CPU on threads of their own.
// For tests: what runs here assumes neither host memory nor work that is done when a call returns.
#include "plimsoll/device/device.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>

#include "plimsoll/device/sim/pages.h"
#include "plimsoll/device/sim/stream.h"
#include "plimsoll/memory/limits.h"

namespace plimsoll::device {
namespace {

class Sim : public Device {
 public:
  const Traits& traits() const override { return traits_; }

  std::unique_ptr<PageSource> pages(int64_t bytes) override {
    return std::make_unique<SimPages>(host_page_bytes(bytes), twins_);
  }
  std::unique_ptr<Stream> stream(const StreamOptions& options) override {
    return std::make_unique<SimStream>(twins_, options.threads, ++streams_);
  }
  std::unique_ptr<Event> event() override { return std::make_unique<SimEvent>(); }

  void read(std::span<std::byte> to, const std::byte* from) override {
    if (!to.empty()) std::memcpy(to.data(), twin_of(from), to.size());
  }
  void write(std::byte* to, std::span<const std::byte> from) override {
    if (!from.empty()) std::memcpy(twin_of(to), from.data(), from.size());
  }
  std::byte* kernel_address(std::byte* at) const override { return at == nullptr ? nullptr : twin_of(at); }

  std::string cost_id() const override { return cpu_device().cost_id() + ", simulated device"; }
  Budget budget() const override { return machine_budget(); }

 private:
  std::byte* twin_of(const std::byte* at) const {
    std::byte* twin = twins_.find(at);
    if (twin == nullptr) throw ArgumentError(fmt::format("{} is no address of sim", static_cast<const void*>(at)));
    return twin;
  }

  Traits traits_{.name = "sim", .alignment = 256, .is_host = false};
  Twins twins_;
  std::atomic<uint32_t> streams_ = 0;
};

}  // namespace

Device& sim_device() {
  static Sim sim;
  return sim;
}

}  // namespace plimsoll::device
