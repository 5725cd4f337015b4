// The host as a device: its memory is everyone's, its stream runs work at once, its kernels throw.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "plimsoll/device/device.h"
#include "plimsoll/device/threads.h"
#include "plimsoll/memory/file_pages.h"
#include "plimsoll/memory/limits.h"

namespace plimsoll::device {
namespace {

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "unknown";
}

// With the limit on the instructions that kernels use, where the environment sets one.
std::string processor_id() {
  const char* limit = std::getenv("PLIMSOLL_MAX_ISA");
  const bool is_limited = limit != nullptr && *limit != '\0';
  return processor_name() + (is_limited ? fmt::format(", at most {}", limit) : "");
}

class CpuStream : public Stream {
 public:
  explicit CpuStream(int threads) : threads_(threads) {}

  void enqueue(const std::function<void()>& work) override {
    const ThreadScope scope(threads_);
    work();
  }
  void copy(std::byte* to, const std::byte* from, int64_t bytes) override {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  void zero(std::byte* at, int64_t bytes) override { std::memset(at, 0, static_cast<size_t>(bytes)); }
  void record(Event& /*event*/) override {}
  void wait(const Event& /*event*/) override {}
  void synchronize() override {}
  FaultRecord* fault() override { return nullptr; }
  void* native() override { return nullptr; }

 private:
  int threads_;
};

class Cpu : public Device {
 public:
  const Traits& traits() const override { return traits_; }
  std::unique_ptr<PageSource> pages(int64_t bytes) override {
    return std::make_unique<FilePages>(FilePages::host(host_page_bytes(bytes)));
  }
  std::unique_ptr<Stream> stream(const StreamOptions& options) override {
    return std::make_unique<CpuStream>(options.threads);
  }
  std::unique_ptr<Event> event() override { return std::make_unique<Event>(); }
  void read(std::span<std::byte> to, const std::byte* from) override {
    if (!to.empty()) std::memcpy(to.data(), from, to.size());
  }
  void write(std::byte* to, std::span<const std::byte> from) override {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
  }
  std::string cost_id() const override { return processor_id(); }
  Budget budget() const override { return machine_budget(); }

 private:
  Traits traits_{.name = "cpu", .alignment = 64, .is_host = true};
};

}  // namespace

Device& cpu_device() {
  static Cpu cpu;
  return cpu;
}

}  // namespace plimsoll::device
