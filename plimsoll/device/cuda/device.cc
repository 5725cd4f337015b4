// NVIDIA cards as devices: pages of the driver's virtual memory, its streams and events.
#include "plimsoll/device/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "plimsoll/base/bytes.h"
#include "plimsoll/device/cuda/cards.h"
#include "plimsoll/device/cuda/pages.h"
#include "plimsoll/device/cuda/paper.h"
#include "plimsoll/device/cuda/runtime.h"

namespace plimsoll::device {
namespace {

using cuda::CompileOnly;
using cuda::CudaPages;
using cuda::DevicePointer;
using cuda::Runtime;

constexpr int64_t kAlignment = 256;
// For compiled kernels and the libraries' own memory, which come after a budget is asked for: beside arenas, with the
// context. Where so much is in use already, kLeastReserve more than that.
constexpr int64_t kReserve = int64_t{512} << 20;
constexpr int64_t kLeastReserve = int64_t{64} << 20;

DevicePointer pointer(const void* at) { return reinterpret_cast<DevicePointer>(at); }

// New memory is zero, as an arena's is on the host.
class ArenaPages : public CudaPages {
 public:
  explicit ArenaPages(Runtime& runtime) : CudaPages(runtime.driver(), runtime.ordinal()), runtime_(runtime) {}

  void create(std::span<PageId> pages) override {
    CudaPages::create(pages);
    count();
  }
  void destroy(std::span<const PageId> pages) override {
    CudaPages::destroy(pages);
    count();
  }
  void prefault(std::byte* at, int64_t page_count) override {
    const auto words = static_cast<size_t>(page_count * page_bytes() / 4);
    if (words == 0) return;
    runtime_.check(runtime_.driver().memset_d32_async(pointer(at), 0, words, nullptr), "cuMemsetD32Async");
    runtime_.check(runtime_.driver().stream_synchronize(nullptr), "cuStreamSynchronize");
  }

 private:
  // Also where creating some failed, and those before were destroyed.
  void count() {
    const int64_t now = created_pages() * page_bytes();
    runtime_.count_pages(now - counted_);
    counted_ = now;
  }

  Runtime& runtime_;
  int64_t counted_ = 0;
};

class CudaEvent : public Event {
 public:
  explicit CudaEvent(Runtime& runtime, unsigned flags = cuda::kEventDisableTiming) : runtime_(runtime) {
    runtime_.check(runtime_.driver().event_create(&handle_, flags), "cuEventCreate");
  }
  ~CudaEvent() override { runtime_.driver().event_destroy(handle_); }
  cuda::EventHandle handle() const { return handle_; }

 private:
  Runtime& runtime_;
  cuda::EventHandle handle_ = nullptr;
};

// A graph of the driver, on the stream that it was captured from.
class CudaGraph : public Kept {
 public:
  CudaGraph(Runtime& runtime, cuda::StreamHandle stream, cuda::GraphHandle graph) : runtime_(runtime), stream_(stream) {
    runtime_.check(runtime_.compute().graph_instantiate(&exec_, graph, 0), "cuGraphInstantiate");
  }
  ~CudaGraph() override {
    runtime_.driver().stream_synchronize(stream_);
    runtime_.compute().graph_exec_destroy(exec_);
  }
  void enqueue() override { runtime_.check(runtime_.compute().graph_launch(exec_, stream_), "cuGraphLaunch"); }

 private:
  Runtime& runtime_;
  cuda::StreamHandle stream_;
  cuda::GraphExecHandle exec_ = nullptr;
};

bool keeps_graphs() {
  const char* const wish = std::getenv("PLIMSOLL_CUDA_GRAPHS");
  return wish == nullptr || std::string_view(wish) != "0";
}

class CudaStream : public Stream {
 public:
  explicit CudaStream(Runtime& runtime) : runtime_(runtime) {
    runtime_.check(runtime_.driver().stream_create(&handle_, cuda::kStreamNonBlocking), "cuStreamCreate");
    try {
      DevicePointer at = 0;
      runtime_.check(runtime_.compute().mem_alloc(&at, sizeof(FaultRecord)), "cuMemAlloc");
      fault_ = reinterpret_cast<FaultRecord*>(at);
      clear_fault();
    } catch (...) {
      release();
      throw;
    }
  }
  ~CudaStream() override { release(); }

  void enqueue(const std::function<void()>& work) override {
    synchronize();
    work();
  }
  void copy(std::byte* to, const std::byte* from, int64_t bytes) override {
    if (bytes == 0) return;
    runtime_.check(runtime_.compute().memcpy_async(pointer(to), pointer(from), static_cast<size_t>(bytes), handle_),
                   "cuMemcpyAsync");
  }
  void zero(std::byte* at, int64_t bytes) override {
    if (bytes == 0) return;
    runtime_.check(runtime_.compute().memset_d8_async(pointer(at), 0, static_cast<size_t>(bytes), handle_),
                   "cuMemsetD8Async");
  }
  void record(Event& event) override {
    runtime_.check(runtime_.driver().event_record(dynamic_cast<CudaEvent&>(event).handle(), handle_), "cuEventRecord");
  }
  void wait(const Event& event) override {
    runtime_.check(runtime_.driver().stream_wait_event(handle_, dynamic_cast<const CudaEvent&>(event).handle(), 0),
                   "cuStreamWaitEvent");
  }
  void synchronize() override {
    runtime_.check(runtime_.driver().stream_synchronize(handle_), "work on the card");
    FaultRecord found;
    runtime_.check(runtime_.driver().memcpy_dtoh(&found, pointer(fault_), sizeof found), "cuMemcpyDtoH");
    if (found.op == 0) return;
    clear_fault();
    throw KernelFault(found);
  }
  // Work of the host, which waits for the stream, is an error of the driver while it captures.
  std::unique_ptr<Kept> keep(const std::function<void()>& work) override {
    if (!keeps_graphs()) return nullptr;
    if (runtime_.compute().stream_begin_capture(handle_, cuda::kCaptureThreadLocal) != cuda::kSuccess) return nullptr;
    bool is_whole = true;
    try {
      work();
    } catch (const Error&) {
      is_whole = false;
    }
    cuda::GraphHandle graph = nullptr;
    is_whole = runtime_.compute().stream_end_capture(handle_, &graph) == cuda::kSuccess && is_whole;
    std::unique_ptr<Kept> kept;
    try {
      if (is_whole && graph != nullptr) kept = std::make_unique<CudaGraph>(runtime_, handle_, graph);
    } catch (const cuda::DriverError&) {  // as before, op by op
    }
    if (graph != nullptr) runtime_.compute().graph_destroy(graph);
    return kept;
  }
  FaultRecord* fault() override { return fault_; }
  void* native() override { return handle_; }

 private:
  void release() {
    runtime_.driver().stream_synchronize(handle_);
    if (fault_ != nullptr) runtime_.compute().mem_free(pointer(fault_));
    runtime_.driver().stream_destroy(handle_);
  }
  void clear_fault() {
    zero(reinterpret_cast<std::byte*>(fault_), sizeof(FaultRecord));
    runtime_.check(runtime_.driver().stream_synchronize(handle_), "cuStreamSynchronize");
  }

  Runtime& runtime_;
  cuda::StreamHandle handle_ = nullptr;
  FaultRecord* fault_ = nullptr;
};

class Cuda : public Device {
 public:
  explicit Cuda(int ordinal)
      : runtime_(ordinal),
        traits_{.name = fmt::format("cuda:{}", ordinal), .alignment = kAlignment, .is_host = false} {}

  const Traits& traits() const override { return traits_; }
  std::unique_ptr<PageSource> pages(int64_t /*bytes*/) override {
    runtime_.use();
    return std::make_unique<ArenaPages>(runtime_);
  }
  std::unique_ptr<Stream> stream(const StreamOptions& /*options*/) override {
    runtime_.use();
    return std::make_unique<CudaStream>(runtime_);
  }
  std::unique_ptr<Event> event() override { return std::make_unique<CudaEvent>(runtime_); }

  void read(std::span<std::byte> to, const std::byte* from) override {
    if (to.empty()) return;
    runtime_.use();
    runtime_.check(runtime_.driver().memcpy_dtoh(to.data(), pointer(from), to.size()), "cuMemcpyDtoH");
  }
  void write(std::byte* to, std::span<const std::byte> from) override {
    if (from.empty()) return;
    runtime_.use();
    runtime_.check(runtime_.compute().memcpy_htod(pointer(to), from.data(), from.size()), "cuMemcpyHtoD");
  }

  std::optional<double> seconds_of(Stream& stream, const std::function<void()>& work) override {
    CudaEvent start(runtime_, 0);
    CudaEvent end(runtime_, 0);
    stream.record(start);
    work();
    stream.record(end);
    stream.synchronize();
    float milliseconds = 0;
    runtime_.check(runtime_.compute().event_elapsed_time(&milliseconds, start.handle(), end.handle()),
                   "cuEventElapsedTime");
    return milliseconds / 1e3;
  }

  std::string cost_id() const override {
    return fmt::format("{}, driver {}", runtime_.driver().device_name(runtime_.ordinal()), runtime_.driver().version());
  }
  Budget budget() const override {
    const int64_t reserve =  // what is still to come
        std::max(kLeastReserve, kReserve - runtime_.grown_bytes()) + runtime_.ranks_to_come();
    return {std::max<int64_t>(0, runtime_.free_bytes() - reserve),
            fmt::format("free memory of {}, less {} for compiled kernels", traits_.name, format_bytes(reserve))};
  }
  int64_t overhead_bytes() const override {
    return runtime_.overhead_bytes() + runtime_.ranks_booked() +
           std::max(kReserve, runtime_.grown_bytes() + kLeastReserve);
  }

  void use() { runtime_.use(); }

 private:
  Runtime runtime_;
  Traits traits_;
};

// On paper: the host's memory, and streams on which nothing is left to do.
class PaperStream : public Stream {
 public:
  void enqueue(const std::function<void()>& work) override { work(); }
  void copy(std::byte* to, const std::byte* from, int64_t bytes) override {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  void zero(std::byte* at, int64_t bytes) override { std::memset(at, 0, static_cast<size_t>(bytes)); }
  void record(Event& /*event*/) override {}
  void wait(const Event& /*event*/) override {}
  void synchronize() override {}
  FaultRecord* fault() override { return nullptr; }
  void* native() override { return nullptr; }
};

class PaperCuda : public Device {
 public:
  const Traits& traits() const override { return traits_; }
  std::unique_ptr<PageSource> pages(int64_t bytes) override { return cpu_device().pages(bytes); }
  std::unique_ptr<Stream> stream(const StreamOptions& /*options*/) override { return std::make_unique<PaperStream>(); }
  std::unique_ptr<Event> event() override { return std::make_unique<Event>(); }
  void read(std::span<std::byte> to, const std::byte* from) override { cpu_device().read(to, from); }
  void write(std::byte* to, std::span<const std::byte> from) override { cpu_device().write(to, from); }
  std::string cost_id() const override { return "cuda on paper"; }
  Budget budget() const override { return cpu_device().budget(); }

 private:
  Traits traits_{.name = "cuda:0", .alignment = kAlignment, .is_host = false};
};

}  // namespace

Device& cuda_device(int ordinal) {
  static std::mutex lock;
  const std::lock_guard held(lock);
  cuda::set_card_on_paper(nullptr);
  if (CompileOnly::architecture() != nullptr) {
    static PaperCuda paper;
    return paper;
  }
  static std::map<int, std::unique_ptr<Cuda>> cards;
  std::unique_ptr<Cuda>& card = cards[ordinal];
  if (!card) card = std::make_unique<Cuda>(ordinal);
  card->use();
  return *card;
}

}  // namespace plimsoll::device

namespace plimsoll::cuda {
namespace {

const std::string*& paper_architecture() {
  static const std::string* architecture = nullptr;
  return architecture;
}

}  // namespace

CompileOnly::CompileOnly(std::string architecture) { paper_architecture() = new std::string(std::move(architecture)); }

CompileOnly::~CompileOnly() {
  delete paper_architecture();
  paper_architecture() = nullptr;
}

const std::string* CompileOnly::architecture() { return paper_architecture(); }

}  // namespace plimsoll::cuda
