#include "plimsoll/device/mpi.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>
#include <thread>
#include <vector>

#include "plimsoll/device/queued_ranks.h"

namespace plimsoll::device {
namespace {

constexpr const char* kLibrary = "libmpi.so.40";  // of Open MPI 3 to 5

// Open MPI's types, as far as they are needed: handles are pointers to objects of the library.
using Handle = void*;
void* const kInPlace = reinterpret_cast<void*>(1);  // NOLINT: MPI_IN_PLACE
constexpr int kSerialized = 2;
constexpr int kMultiple = 3;
constexpr int kTypeShared = 0;

// Collectives of more bytes are several: what MPI takes for itself is then known.
constexpr int64_t kAtOnceBytes = int64_t{2} << 20;

struct Api {
  int (*init)(int*, char***, int, int*);
  int (*finalize)();
  int (*abort)(Handle, int);
  int (*rank)(Handle, int*);
  int (*size)(Handle, int*);
  int (*split_type)(Handle, int, int, Handle, Handle*);
  int (*all_reduce)(const void*, void*, int, Handle, Handle, Handle);
  int (*reduce_scatter)(const void*, void*, const int*, Handle, Handle, Handle);
  int (*all_gather)(const void*, int, Handle, void*, const int*, const int*, Handle, Handle);
  int (*start_all_reduce)(const void*, void*, int, Handle, Handle, Handle, Handle*);
  int (*start_reduce_scatter)(const void*, void*, const int*, Handle, Handle, Handle, Handle*);
  int (*start_all_gather)(const void*, int, Handle, void*, const int*, const int*, Handle, Handle, Handle*);
  int (*start_broadcast)(void*, int, Handle, int, Handle, Handle*);
  int (*start_barrier)(Handle, Handle*);
  int (*test)(Handle*, int*, void*);
  Handle world, info_null, sum, f32, f64, i64, byte;
};

template <class F>
void find(void* library, const char* name, F& into) {
  into = reinterpret_cast<F>(dlsym(library, name));
  if (into == nullptr) {
    throw UnsupportedError(fmt::format(
        "{} has no {}: it is not Open MPI's; install openmpi-bin and start with its mpirun", kLibrary, name));
  }
}

Api load() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);  // its plugins look for its symbols
  if (library == nullptr) {
    throw UnsupportedError(
        fmt::format("a launcher started several ranks, and Open MPI cannot be loaded: {}; install "
                    "openmpi-bin",
                    dlerror()));
  }
  Api api{};
  find(library, "MPI_Init_thread", api.init);
  find(library, "MPI_Finalize", api.finalize);
  find(library, "MPI_Abort", api.abort);
  find(library, "MPI_Comm_rank", api.rank);
  find(library, "MPI_Comm_size", api.size);
  find(library, "MPI_Comm_split_type", api.split_type);
  find(library, "MPI_Allreduce", api.all_reduce);
  find(library, "MPI_Reduce_scatter", api.reduce_scatter);
  find(library, "MPI_Allgatherv", api.all_gather);
  find(library, "MPI_Iallreduce", api.start_all_reduce);
  find(library, "MPI_Ireduce_scatter", api.start_reduce_scatter);
  find(library, "MPI_Iallgatherv", api.start_all_gather);
  find(library, "MPI_Ibcast", api.start_broadcast);
  find(library, "MPI_Ibarrier", api.start_barrier);
  find(library, "MPI_Test", api.test);
  find(library, "ompi_mpi_comm_world", api.world);
  find(library, "ompi_mpi_info_null", api.info_null);
  find(library, "ompi_mpi_op_sum", api.sum);
  find(library, "ompi_mpi_float", api.f32);
  find(library, "ompi_mpi_double", api.f64);
  find(library, "ompi_mpi_int64_t", api.i64);
  find(library, "ompi_mpi_byte", api.byte);
  return api;
}

// MPI's errors end all ranks by default; what comes here is of another kind.
void require(int error, const char* call) {
  if (error != 0) throw RankError(fmt::format("{} failed with error {} of MPI", call, error));
}

int checked_count(int64_t count) {
  if (count <= std::numeric_limits<int>::max()) return static_cast<int>(count);
  throw UnsupportedError(
      fmt::format("a tensor of {} elements is spread over ranks: MPI takes {} at most", count, INT_MAX));
}

class MpiRanks : public Communicator {
 public:
  MpiRanks() : api_(load()) {
    int provided = 0;
    require(api_.init(nullptr, nullptr, kMultiple, &provided), "MPI_Init_thread");
    has_threads_ = provided >= kSerialized;
    require(api_.rank(api_.world, &rank_), "MPI_Comm_rank");
    require(api_.size(api_.world, &ranks_), "MPI_Comm_size");
    Handle local = nullptr;
    require(api_.split_type(api_.world, kTypeShared, 0, api_.info_null, &local), "MPI_Comm_split_type");
    require(api_.size(local, &local_ranks_), "MPI_Comm_size");
    require(api_.rank(local, &local_rank_), "MPI_Comm_rank");
    staged_.resize(static_cast<size_t>(std::max<int64_t>(kAtOnceBytes, ranks_ * int64_t{8})));
    warm_up();
  }
  ~MpiRanks() override { api_.finalize(); }
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  int local_ranks() const override { return local_ranks_; }
  int local_rank() const override { return local_rank_; }

  // Open MPI takes up to twice the bytes of a collective for itself while it runs.
  int64_t working_bytes() const override { return 2 * kAtOnceBytes; }

  void all_reduce(DType dtype, std::byte* data, int64_t elements) override {
    const Handle type = summed(dtype);
    const int64_t most = kAtOnceBytes / element_bytes(dtype);
    for (int64_t first = 0; first < elements; first += most) {
      const auto count = static_cast<int>(std::min(most, elements - first));
      std::byte* at = data + first * element_bytes(dtype);
      if (hurry_ == nullptr) {
        require(api_.all_reduce(kInPlace, at, count, type, api_.sum, api_.world), "MPI_Allreduce");
      } else {
        require(api_.start_all_reduce(kInPlace, at, count, type, api_.sum, api_.world, &request_), "MPI_Iallreduce");
        wait_yielding();
      }
    }
  }

  void reduce_scatter(DType dtype, const std::byte* all, int64_t elements, std::byte* own) override {
    const Handle type = summed(dtype);
    const int64_t size = element_bytes(dtype);
    for (int64_t first = 0; first < shard_elements(elements, ranks_); first += most_of_shard(size)) {
      const Parts parts = parts_from(first, elements, most_of_shard(size));
      int64_t packed = 0;
      for (size_t rank = 0; rank < parts.counts.size(); ++rank) {
        const auto bytes = static_cast<size_t>(parts.counts[rank] * size);
        std::memcpy(staged_.data() + packed, all + parts.places[rank] * size, bytes);
        packed += static_cast<int64_t>(bytes);
      }
      std::byte* to = own + first * size;
      if (hurry_ == nullptr) {
        require(api_.reduce_scatter(staged_.data(), to, parts.counts.data(), type, api_.sum, api_.world),
                "MPI_Reduce_scatter");
      } else {
        require(
            api_.start_reduce_scatter(staged_.data(), to, parts.counts.data(), type, api_.sum, api_.world, &request_),
            "MPI_Ireduce_scatter");
        wait_yielding();
      }
    }
  }

  void all_gather(DType dtype, std::byte* all, int64_t elements) override {
    const int64_t size = element_bytes(dtype);
    checked_count(elements * size);
    for (int64_t first = 0; first < shard_elements(elements, ranks_); first += most_of_shard(size)) {
      Parts parts = parts_from(first, elements, most_of_shard(size));
      for (int& count : parts.counts) count *= static_cast<int>(size);
      for (int& place : parts.places) place *= static_cast<int>(size);
      const int* counts = parts.counts.data();
      const int* places = parts.places.data();
      if (hurry_ == nullptr) {
        require(api_.all_gather(kInPlace, 0, api_.byte, all, counts, places, api_.byte, api_.world), "MPI_Allgatherv");
      } else {
        require(api_.start_all_gather(kInPlace, 0, api_.byte, all, counts, places, api_.byte, api_.world, &request_),
                "MPI_Iallgatherv");
        wait_yielding();
      }
    }
  }

  void broadcast(std::span<std::byte> data, int root) override {
    Handle request = nullptr;
    const int count = checked_count(static_cast<int64_t>(data.size()));
    require(api_.start_broadcast(data.data(), count, api_.byte, root, api_.world, &request), "MPI_Ibcast");
    wait(request);
  }

  void barrier() override {
    Handle request = nullptr;
    require(api_.start_barrier(api_.world, &request), "MPI_Ibarrier");
    wait(request);
  }

  void abort(int status) override { api_.abort(api_.world, status); }

  void yield_processor(const std::atomic<bool>* hurry) override { hurry_ = hurry; }

  // Whether several threads may call it, one at a time.
  bool has_threads() const { return has_threads_; }

 private:
  struct Parts {
    std::vector<int> counts;
    std::vector<int> places;
  };

  // MPI connects ranks and takes its buffers when they are first used: now, before anyone measures what is left.
  void warm_up() {
    const std::atomic<bool> hurry = true;
    for (const std::atomic<bool>* way : {static_cast<const std::atomic<bool>*>(nullptr), &hurry}) {
      yield_processor(way);
      warm_up_collectives();
    }
    yield_processor(nullptr);
  }

  void warm_up_collectives() {
    std::vector<std::byte> data(static_cast<size_t>(kAtOnceBytes));
    constexpr int64_t kElements = kAtOnceBytes / 4;
    std::vector<std::byte> own(static_cast<size_t>(4 * shard_elements(kElements, ranks_)));
    all_reduce(DType::f32, data.data(), kElements);
    reduce_scatter(DType::f32, data.data(), kElements, own.data());
    all_gather(DType::f32, data.data(), kElements);
    barrier();
  }

  Handle summed(DType dtype) const {
    if (dtype == DType::f32) return api_.f32;
    if (dtype == DType::f64) return api_.f64;
    if (dtype == DType::i64) return api_.i64;
    throw ArgumentError(fmt::format("ranks sum f32, f64 and i64, not {}", name(dtype)));
  }

  // Of each shard, in one call.
  int64_t most_of_shard(int64_t element_size) const {
    return std::max<int64_t>(1, kAtOnceBytes / element_size / ranks_);
  }

  // Elements from `first` on of every rank's shard, so many at most.
  Parts parts_from(int64_t first, int64_t elements, int64_t most) const {
    Parts parts;
    for (int rank = 0; rank < ranks_; ++rank) {
      const Shard shard = shard_of(elements, ranks_, rank);
      const int64_t begin = std::min(shard.end, shard.first + first);
      parts.counts.push_back(static_cast<int>(std::min(shard.end - begin, most)));
      parts.places.push_back(checked_count(begin));
    }
    return parts;
  }

  // Of a collective beside other work. Each test also moves its data on.
  void wait_yielding() {
    constexpr auto kPause = std::chrono::microseconds(20);
    for (int done = 0; done == 0;) {
      require(api_.test(&request_, &done, nullptr), "MPI_Test");
      if (done != 0) return;
      if (*hurry_) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kPause);
      }
    }
  }

  // MPI's own waiting uses a processor.
  void wait(Handle request) {
    constexpr auto kShort = std::chrono::microseconds(50);
    constexpr auto kLong = std::chrono::milliseconds(2);
    auto pause = kShort;
    for (int done = 0; done == 0;) {
      require(api_.test(&request, &done, nullptr), "MPI_Test");
      if (done != 0) return;
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::duration_cast<std::chrono::microseconds>(kLong));
    }
  }

  Api api_;
  int rank_ = 0;
  int ranks_ = 1;
  int local_ranks_ = 1;
  int local_rank_ = 0;
  bool has_threads_ = false;
  const std::atomic<bool>* hurry_ = nullptr;
  Handle request_ = nullptr;
  std::vector<std::byte> staged_;
};

// With the thread that calls what is started, which takes its memory now.
std::shared_ptr<Communicator> with_queue(std::shared_ptr<MpiRanks> ranks) {
  if (!ranks->has_threads()) return ranks;
  auto queued = std::make_shared<QueuedRanks>(std::move(ranks));
  std::vector<std::byte> data(static_cast<size_t>(kAtOnceBytes));
  queued->start_all_reduce(DType::f32, data.data(), kAtOnceBytes / element_bytes(DType::f32));
  queued->drain();
  return queued;
}

}  // namespace

std::optional<int> launched_ranks() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* text = std::getenv(variable);
    if (text == nullptr) continue;
    const std::string_view number = text;
    int ranks = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), ranks);
    if (error == std::errc() && end == number.data() + number.size() && ranks > 0) return ranks;
  }
  return std::nullopt;
}

std::shared_ptr<Communicator> join_mpi() {
  const int launched = launched_ranks().value_or(1);
  if (launched == 1) return nullptr;
  auto joined = std::make_shared<MpiRanks>();
  if (joined->ranks() == launched) return with_queue(std::move(joined));
  throw UnsupportedError(
      fmt::format("the launcher started {} processes, and Open MPI sees {}: start with Open MPI's mpirun, or with srun "
                  "--mpi=pmix",
                  launched, joined->ranks()));
}

}  // namespace plimsoll::device
