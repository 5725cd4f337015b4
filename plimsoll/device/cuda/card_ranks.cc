#include "plimsoll/device/cuda/card_ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <fstream>
#include <limits>
#include <unordered_map>
#include <vector>

#include "plimsoll/base/bytes.h"
#include "plimsoll/device/cuda/nccl.h"
#include "plimsoll/device/cuda/runtime.h"
#include "plimsoll/device/gather.h"
#include "plimsoll/device/stream_ranks.h"

namespace plimsoll::device {
namespace {

using cuda::Nccl;
using cuda::NcclComm;
using cuda::NcclUniqueId;
using cuda::Runtime;

// Of the largest collective of the first round, in which NCCL connects ranks and takes its buffers.
constexpr int64_t kWarmUpElements = int64_t{1} << 20;

class OwnEvent {
 public:
  explicit OwnEvent(Runtime& runtime) : runtime_(runtime) {
    runtime_.check(runtime_.driver().event_create(&handle_, cuda::kEventDisableTiming), "cuEventCreate");
  }
  ~OwnEvent() { runtime_.driver().event_destroy(handle_); }
  OwnEvent(const OwnEvent&) = delete;
  OwnEvent& operator=(const OwnEvent&) = delete;

  void record(cuda::StreamHandle stream) {
    runtime_.check(runtime_.driver().event_record(handle_, stream), "cuEventRecord");
  }
  // What comes next on the stream comes behind it.
  void hold(cuda::StreamHandle stream) const {
    runtime_.check(runtime_.driver().stream_wait_event(stream, handle_, 0), "cuStreamWaitEvent");
  }

 private:
  Runtime& runtime_;
  cuda::EventHandle handle_ = nullptr;
};

class OwnStream {
 public:
  explicit OwnStream(Runtime& runtime) : runtime_(runtime) {
    runtime_.check(runtime_.driver().stream_create(&handle_, cuda::kStreamNonBlocking), "cuStreamCreate");
  }
  ~OwnStream() { runtime_.driver().stream_destroy(handle_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  cuda::StreamHandle handle() const { return handle_; }

 private:
  Runtime& runtime_;
  cuda::StreamHandle handle_ = nullptr;
};

// Zeros of the card, while the communicator is made and links are measured.
class Zeros {
 public:
  Zeros(Runtime& runtime, int64_t bytes) : runtime_(runtime) {
    runtime_.check(runtime_.compute().mem_alloc(&at_, static_cast<size_t>(bytes)), "cuMemAlloc");
    cuda::Result result = runtime_.driver().memset_d32_async(at_, 0, static_cast<size_t>(bytes / 4), nullptr);
    if (result == cuda::kSuccess) result = runtime_.driver().stream_synchronize(nullptr);
    if (result == cuda::kSuccess) return;
    runtime_.compute().mem_free(at_);
    runtime_.fail(result, "cuMemsetD32Async");
  }
  ~Zeros() { runtime_.compute().mem_free(at_); }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;

  std::byte* data() const { return reinterpret_cast<std::byte*>(at_); }

 private:
  Runtime& runtime_;
  cuda::DevicePointer at_ = 0;
};

// Calls of NCCL that become one launch.
class Together {
 public:
  explicit Together(const Nccl& nccl) : nccl_(nccl) { nccl_.check(nccl_.group_start(), "ncclGroupStart"); }
  ~Together() {
    if (!is_over_) nccl_.group_end();
  }
  Together(const Together&) = delete;
  Together& operator=(const Together&) = delete;

  void end() {
    is_over_ = true;
    nccl_.check(nccl_.group_end(), "ncclGroupEnd");
  }

 private:
  const Nccl& nccl_;
  bool is_over_ = false;
};

size_t count_of(int64_t elements) { return static_cast<size_t>(elements); }

// NCCL's communicator, whose work is on `stream`. Where an error is on its way it does not wait for the others, and
// after `leave` for nothing at all: the process ends.
class Joined {
 public:
  Joined(const Nccl& nccl, Runtime& runtime, Communicator& ranks, cuda::StreamHandle stream)
      : nccl_(nccl), runtime_(runtime), stream_(stream) {
    NcclUniqueId id{};
    if (ranks.rank() == 0) nccl_.check(nccl_.get_unique_id(&id), "ncclGetUniqueId");
    ranks.broadcast(std::as_writable_bytes(std::span(id.bytes)), 0);
    nccl_.check(nccl_.comm_init_rank(&handle_, ranks.ranks(), id, ranks.rank()),
                fmt::format("ncclCommInitRank of rank {} of {}", ranks.rank(), ranks.ranks()));
  }
  ~Joined() {
    if (has_left_) return;
    if (std::uncaught_exceptions() > exceptions_) {
      nccl_.comm_abort(handle_);
      return;
    }
    runtime_.driver().stream_synchronize(stream_);
    nccl_.comm_destroy(handle_);
  }
  Joined(const Joined&) = delete;
  Joined& operator=(const Joined&) = delete;

  NcclComm handle() const { return handle_; }
  void leave() { has_left_ = true; }

 private:
  const Nccl& nccl_;
  Runtime& runtime_;
  cuda::StreamHandle stream_;
  NcclComm handle_ = nullptr;
  bool has_left_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

class NcclRanks : public StreamRanks {
 public:
  NcclRanks(Communicator& ranks, Runtime& runtime)
      : ranks_(ranks),
        runtime_(runtime),
        nccl_(Nccl::get()),
        free_before_(runtime.free_bytes()),
        stream_(runtime),
        ready_(runtime),
        joined_(nccl_, runtime, ranks, stream_.handle()) {
    warm_up();
    const int64_t taken = std::max<int64_t>(0, free_before_ - runtime_.free_bytes());
    booked_ = std::max(kNcclBytes, taken);
    runtime_.book_ranks(taken, booked_);
  }
  ~NcclRanks() override { runtime_.book_ranks(0, 0); }
  NcclRanks(const NcclRanks&) = delete;
  NcclRanks& operator=(const NcclRanks&) = delete;

  void start_all_reduce(Stream& stream, DType dtype, std::byte* data, int64_t elements) override {
    const int type = cuda::nccl_type(dtype);
    start(stream, data, elements, [&] {
      check(nccl_.all_reduce(data, data, count_of(elements), type, cuda::kNcclSum, joined_.handle(), stream_.handle()),
            "ncclAllReduce", elements * element_bytes(dtype));
    });
  }

  void start_reduce_scatter(Stream& stream, DType dtype, const std::byte* all, int64_t elements,
                            std::byte* own) override {
    const int type = cuda::nccl_type(dtype);
    start(stream, own, elements, [&] {
      if (elements % ranks_.ranks() == 0) {
        return check(nccl_.reduce_scatter(all, own, count_of(elements / ranks_.ranks()), type, cuda::kNcclSum,
                                          joined_.handle(), stream_.handle()),
                     "ncclReduceScatter", elements * element_bytes(dtype));
      }
      for_each_shard(elements, [&](int root, const Shard& shard) {
        const std::byte* const from = all + shard.first * element_bytes(dtype);
        check(nccl_.reduce(from, own, count_of(shard.size()), type, cuda::kNcclSum, root, joined_.handle(),
                           stream_.handle()),
              "ncclReduce", shard.size() * element_bytes(dtype));
      });
    });
  }

  void start_all_gather(Stream& stream, DType dtype, std::byte* all, int64_t elements) override {
    const int64_t size = element_bytes(dtype);
    start(stream, all, elements, [&] {
      if (elements % ranks_.ranks() == 0) {
        const int64_t bytes = elements / ranks_.ranks() * size;
        return check(nccl_.all_gather(all + ranks_.rank() * bytes, all, count_of(bytes), cuda::kNcclUint8,
                                      joined_.handle(), stream_.handle()),
                     "ncclAllGather", elements * size);
      }
      for_each_shard(elements, [&](int root, const Shard& shard) {
        send_to_all(all + shard.first * size, shard.size() * size, root);
      });
    });
  }

  void start_broadcast(Stream& stream, std::byte* data, int64_t bytes, int root) override {
    start(stream, data, bytes, [&] { send_to_all(data, bytes, root); });
  }

  void finish(Stream& stream, const std::byte* result) override {
    const auto found = started_.find(result);
    if (found != started_.end()) found->second.hold(handle_of(stream));
  }

  int64_t device_bytes() const override { return booked_; }

  double seconds_of_sum(int64_t elements) override {
    runtime_.use();
    constexpr int kTries = 5;
    const Zeros data(runtime_, elements * 4);
    double least = std::numeric_limits<double>::max();
    for (int i = 0; i < kTries; ++i) {
      ranks_.barrier();
      const auto start = std::chrono::steady_clock::now();
      check(nccl_.all_reduce(data.data(), data.data(), count_of(elements), cuda::kNcclFloat32, cuda::kNcclSum,
                             joined_.handle(), stream_.handle()),
            "ncclAllReduce", elements * 4);
      synchronize();
      least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return least;
  }

  // What NCCL's own threads have met since.
  void require_health() const {
    int error = cuda::kNcclSuccess;
    nccl_.check(nccl_.comm_get_async_error(joined_.handle(), &error), "ncclCommGetAsyncError");
    if (error != cuda::kNcclSuccess && error != cuda::kNcclInProgress) nccl_.fail(error, "a collective between cards");
  }
  void drain() { runtime_.driver().stream_synchronize(stream_.handle()); }
  void leave() { joined_.leave(); }

 private:
  static cuda::StreamHandle handle_of(Stream& stream) { return static_cast<cuda::StreamHandle>(stream.native()); }

  void check(int result, std::string_view call, int64_t bytes) const {
    if (result != cuda::kNcclSuccess) nccl_.fail(result, fmt::format("{} of {}", call, format_bytes(bytes)));
  }

  // NCCL's calls of `work` on its own stream, behind what is on the other, with an event for `finish`.
  template <class Work>
  void start(Stream& stream, const std::byte* result, int64_t elements, const Work& work) {
    if (elements == 0) return;
    OwnEvent& done = started_.try_emplace(result, runtime_).first->second;
    ready_.record(handle_of(stream));
    ready_.hold(stream_.handle());
    work();
    done.record(stream_.handle());
  }

  // NCCL has scatter and gather of equal shards alone: others are sums and copies of one rank each, in one launch.
  template <class F>
  void for_each_shard(int64_t elements, const F& f) {
    Together together(nccl_);
    for (int root = 0; root < ranks_.ranks(); ++root) {
      const Shard shard = shard_of(elements, ranks_.ranks(), root);
      if (shard.size() > 0) f(root, shard);
    }
    together.end();
  }

  void send_to_all(std::byte* data, int64_t bytes, int root) {
    check(nccl_.broadcast(data, data, count_of(bytes), cuda::kNcclUint8, root, joined_.handle(), stream_.handle()),
          "ncclBroadcast", bytes);
  }

  void synchronize() {
    runtime_.check(runtime_.driver().stream_synchronize(stream_.handle()), "collectives between cards");
  }

  // NCCL takes its buffers when ranks first meet in a collective: now, before anyone asks what is left of the card.
  void warm_up() {
    const Zeros data(runtime_, kWarmUpElements * 4);
    for (const int64_t elements : {int64_t{1}, kWarmUpElements}) {
      const std::byte* const own = data.data();
      check(nccl_.all_reduce(own, data.data(), count_of(elements), cuda::kNcclFloat32, cuda::kNcclSum, joined_.handle(),
                             stream_.handle()),
            "ncclAllReduce", elements * 4);
      const int64_t shard = elements / ranks_.ranks();
      if (shard == 0) continue;
      check(nccl_.reduce_scatter(own, data.data() + ranks_.rank() * shard * 4, count_of(shard), cuda::kNcclFloat32,
                                 cuda::kNcclSum, joined_.handle(), stream_.handle()),
            "ncclReduceScatter", elements * 4);
      check(nccl_.all_gather(own + ranks_.rank() * shard * 4, data.data(), count_of(shard * 4), cuda::kNcclUint8,
                             joined_.handle(), stream_.handle()),
            "ncclAllGather", elements * 4);
    }
    send_to_all(data.data(), kWarmUpElements, 0);
    synchronize();
  }

  Communicator& ranks_;
  Runtime& runtime_;
  const Nccl& nccl_;
  int64_t free_before_;
  OwnStream stream_;
  OwnEvent ready_;  // recorded anew with each that is started
  std::unordered_map<const std::byte*, OwnEvent> started_;
  Joined joined_;
  int64_t booked_ = 0;
};

class CardRanks : public Communicator {
 public:
  CardRanks(std::shared_ptr<Communicator> ranks, Runtime& runtime)
      : ranks_(std::move(ranks)), on_cards_(*ranks_, runtime) {}

  int rank() const override { return ranks_->rank(); }
  int ranks() const override { return ranks_->ranks(); }
  int local_ranks() const override { return ranks_->local_ranks(); }
  int local_rank() const override { return ranks_->local_rank(); }
  int64_t working_bytes() const override { return ranks_->working_bytes(); }
  StreamRanks* on_streams() override { return &on_cards_; }

  void all_reduce(DType dtype, std::byte* data, int64_t elements) override {
    on_cards_.require_health();
    ranks_->all_reduce(dtype, data, elements);
  }
  void reduce_scatter(DType dtype, const std::byte* all, int64_t elements, std::byte* own) override {
    ranks_->reduce_scatter(dtype, all, elements, own);
  }
  void all_gather(DType dtype, std::byte* all, int64_t elements) override {
    on_cards_.require_health();
    ranks_->all_gather(dtype, all, elements);
  }
  void broadcast(std::span<std::byte> data, int root) override { ranks_->broadcast(data, root); }
  void barrier() override { ranks_->barrier(); }

  void start_all_reduce(DType dtype, std::byte* data, int64_t elements) override {
    ranks_->start_all_reduce(dtype, data, elements);
  }
  void start_reduce_scatter(DType dtype, const std::byte* all, int64_t elements, std::byte* own) override {
    ranks_->start_reduce_scatter(dtype, all, elements, own);
  }
  void start_all_gather(DType dtype, std::byte* all, int64_t elements) override {
    ranks_->start_all_gather(dtype, all, elements);
  }
  void finish(const std::byte* result) override { ranks_->finish(result); }
  void drain() override {
    on_cards_.drain();
    ranks_->drain();
  }
  void yield_processor(const std::atomic<bool>* hurry) override { ranks_->yield_processor(hurry); }

  void abort(int status) override {
    on_cards_.leave();
    ranks_->abort(status);
  }

 private:
  std::shared_ptr<Communicator> ranks_;
  NcclRanks on_cards_;
};

// A machine, whatever it is called: names may be alike, and containers of one machine have names of their own.
std::string machine_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "this machine";
}

std::string bus_id_of(const Runtime& runtime) {
  char bus_id[32] = {};
  const cuda::Result result = runtime.driver().device_get_pci_bus_id(bus_id, sizeof bus_id, runtime.ordinal());
  runtime.check(result, "cuDeviceGetPCIBusId");
  return bus_id;
}

void require_cards_of_their_own(Communicator& ranks, const Runtime& runtime) {
  const std::vector<std::string> cards = gather_texts(ranks, machine_id() + " " + bus_id_of(runtime));
  const std::vector<std::string> hosts = gather_texts(ranks, host_name());
  for (size_t rank = 1; rank < cards.size(); ++rank) {
    const auto same = std::find(cards.begin(), cards.end(), cards[rank]) - cards.begin();
    if (static_cast<size_t>(same) == rank) continue;
    throw ArgumentError(fmt::format(
        "ranks {} and {} have one card, {} of {}, and NCCL takes one rank on each: start no more ranks on a "
        "machine than it has cards, with --device cuda",
        same, rank, cards[rank].substr(cards[rank].find(' ') + 1), hosts[rank]));
  }
}

}  // namespace

std::string card_of_rank(const Communicator& ranks, std::string_view device) {
  if (device != "cuda") return std::string(device);
  const int cards = cuda::Driver::load().device_count();
  if (cards == 0) throw UnsupportedError("--device cuda: the NVIDIA driver sees no card on this machine");
  return fmt::format("cuda:{}", ranks.local_rank() % cards);
}

std::shared_ptr<Communicator> join_cards(std::shared_ptr<Communicator> ranks, Device& card) {
  if (card.traits().is_host || !card.traits().runs) {
    throw UnsupportedError(fmt::format("{} is no card that ranks can run on", card.traits().name));
  }
  find_device(card.traits().name);  // its runtime becomes that of this thread
  Runtime& runtime = Runtime::current();
  require_cards_of_their_own(*ranks, runtime);
  return std::make_shared<CardRanks>(std::move(ranks), runtime);
}

}  // namespace plimsoll::device
