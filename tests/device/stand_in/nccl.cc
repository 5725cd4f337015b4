#include "plimsoll/device/cuda/nccl.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "tests/device/stand_in/nccl.h"
#include "tests/device/stand_in/world.h"

using namespace plimsoll::stand_in;

extern "C" {
Result cuMemAlloc_v2(DevicePointer* at, size_t bytes);
Result cuMemFree_v2(DevicePointer at);
}

namespace {

constexpr int kUnhandledCuda = 1;
constexpr int kSystem = 2;
constexpr int kInvalidArgument = 4;
constexpr int kInvalidUsage = 5;
constexpr int kRemote = 6;

struct Op {
  enum class Kind : uint8_t { all_reduce, reduce, reduce_scatter, all_gather, broadcast } kind = Kind::all_reduce;
  const char* from = nullptr;
  char* to = nullptr;
  size_t count = 0;
  int type = 0;
  int root = 0;

  bool is_like(const Op& other) const {
    return kind == other.kind && count == other.count && type == other.type && root == other.root;
  }
};

// What the ranks have for one launch.
struct Meeting {
  std::vector<const std::vector<Op>*> of_ranks;
  size_t here = 0;
  size_t gone = 0;
  bool done = false;
};

struct Group {
  explicit Group(int ranks) : cards(static_cast<size_t>(ranks), -1) {}
  std::vector<int> cards;  // of ranks that are here
  bool is_refused = false;
  bool is_aborted = false;
  std::map<int64_t, Meeting> meetings;

  bool is_whole() const { return std::find(cards.begin(), cards.end(), -1) == cards.end(); }
};

struct Comm {
  std::shared_ptr<Group> group;
  int rank = 0;
  int64_t launches = 0;
  DevicePointer buffers = 0;
};

struct State {
  std::map<std::string, std::weak_ptr<Group>> groups;
  std::set<Comm*> comms;
  StandInNcclCounts counts;
  int64_t ids = 0;
  size_t bytes = size_t{1} << 20;
  int version = 22803;
  std::string last_error;
};

// Guarded by the world's mutex.
State& state() {
  static State made;
  return made;
}

size_t size_of(int type) { return type == kNcclUint8 ? 1 : type == kNcclFloat32 ? 4 : 8; }

template <class T>
void sum(const std::vector<const char*>& operands, size_t first, char* to, size_t count) {
  std::vector<T> sums(count, T{});
  for (const char* operand : operands) {
    const T* const from = reinterpret_cast<const T*>(operand) + first;
    for (size_t i = 0; i < count; ++i) sums[i] += from[i];
  }
  std::memcpy(to, sums.data(), count * sizeof(T));
}

void sum(const std::vector<const char*>& operands, int type, size_t first, char* to, size_t count) {
  if (type == kNcclFloat32) return sum<float>(operands, first, to, count);
  if (type == kNcclFloat64) return sum<double>(operands, first, to, count);
  sum<int64_t>(operands, first, to, count);
}

// Bytes that an op reads and writes of a rank.
size_t read_bytes(const Op& op, size_t ranks) {
  return op.count * size_of(op.type) * (op.kind == Op::Kind::reduce_scatter ? ranks : 1);
}
size_t written_bytes(const Op& op, size_t ranks) {
  return op.count * size_of(op.type) * (op.kind == Op::Kind::all_gather ? ranks : 1);
}

// One op of all ranks: operands are copied first, as results may be the same memory.
void perform(World& w, const std::vector<Op>& of_ranks) {
  const size_t ranks = of_ranks.size();
  std::vector<std::string> read;
  for (const Op& op : of_ranks) {
    if (!op.is_like(of_ranks[0])) {
      ++state().counts.differing;
      return;
    }
    if (!is_there(w, op.from, read_bytes(op, ranks)) || !is_there(w, op.to, written_bytes(op, ranks))) {
      ++w.counts.faults;
      return;
    }
    read.emplace_back(op.from, read_bytes(op, ranks));
  }
  std::vector<const char*> operands;
  for (const std::string& one : read) operands.push_back(one.data());
  for (size_t rank = 0; rank < ranks; ++rank) {
    const Op& op = of_ranks[rank];
    const size_t bytes = op.count * size_of(op.type);
    const auto root = static_cast<size_t>(op.root);
    if (op.kind == Op::Kind::all_reduce || (op.kind == Op::Kind::reduce && rank == root)) {
      sum(operands, op.type, 0, op.to, op.count);
    } else if (op.kind == Op::Kind::reduce_scatter) {
      sum(operands, op.type, rank * op.count, op.to, op.count);
    } else if (op.kind == Op::Kind::broadcast) {
      std::memcpy(op.to, operands[root], bytes);
    } else if (op.kind == Op::Kind::all_gather) {
      for (size_t other = 0; other < ranks; ++other) std::memcpy(op.to + other * bytes, operands[other], bytes);
    }
  }
}

class Launch : public Call {
 public:
  Launch(Comm* comm, std::vector<Op> ops) : comm_(comm), group_(comm->group), ops_(std::move(ops)) {}

  bool is_ready(World& /*w*/) override {
    if (group_->is_aborted) return true;
    if (number_ < 0) {
      number_ = comm_->launches++;
      Meeting& meeting = group_->meetings[number_];
      meeting.of_ranks.resize(group_->cards.size());
      meeting.of_ranks[static_cast<size_t>(comm_->rank)] = &ops_;
      ++meeting.here;
    }
    return group_->meetings[number_].here == group_->cards.size();
  }

  void run(World& w) override {
    if (group_->is_aborted) return;
    Meeting& meeting = group_->meetings[number_];
    if (!meeting.done) perform_all(w, meeting);
    meeting.done = true;
    if (++meeting.gone == group_->cards.size()) group_->meetings.erase(number_);
  }

  std::shared_ptr<Call> again() const override { return std::make_shared<Launch>(comm_, ops_); }

 private:
  void perform_all(World& w, const Meeting& meeting) {
    for (size_t i = 0; i < ops_.size(); ++i) {
      std::vector<Op> of_ranks;
      for (const std::vector<Op>* ops : meeting.of_ranks) {
        if (ops->size() != ops_.size()) {
          ++state().counts.differing;
          return;
        }
        of_ranks.push_back((*ops)[i]);
      }
      ++state().counts.collectives;
      perform(w, of_ranks);
    }
  }

  Comm* comm_;
  std::shared_ptr<Group> group_;
  std::vector<Op> ops_;
  int64_t number_ = -1;
};

// What this thread has put together since ncclGroupStart.
struct Grouped {
  int depth = 0;
  Comm* comm = nullptr;
  StreamHandle stream = nullptr;
  std::vector<Op> ops;
  bool has_failed = false;
};
thread_local Grouped grouped;

int fail(int result, const std::string& why) {
  state().last_error = why;
  return result;
}

int put_launch(World& w, Comm* comm, std::vector<Op> ops, StreamHandle stream) {
  if (ops.empty()) return kNcclSuccess;
  if (!state().comms.contains(comm)) return fail(kInvalidArgument, "no such communicator");
  if (comm->group->is_aborted) return fail(kRemote, "a rank is gone");
  const Result put_there =
      put(w, stream, {.kind = Work::Kind::call, .call = std::make_shared<Launch>(comm, std::move(ops))});
  return put_there == kSuccess ? kNcclSuccess : fail(kUnhandledCuda, "no such stream");
}

int collective(const Op& op, NcclComm handle, StreamHandle stream) {
  World& w = world();
  const Guard guard(w.mutex);
  auto* const comm = reinterpret_cast<Comm*>(handle);
  if (fails(w)) {
    grouped.has_failed = grouped.depth > 0;
    return fail(kUnhandledCuda, "the stand-in was told to fail");
  }
  if (op.type != kNcclUint8 && op.type != kNcclInt64 && op.type != kNcclFloat32 && op.type != kNcclFloat64) {
    return fail(kInvalidArgument, "the stand-in has no such type");
  }
  if (grouped.depth == 0) return put_launch(w, comm, {op}, stream);
  grouped.comm = comm;
  grouped.stream = stream;
  grouped.ops.push_back(op);
  return kNcclSuccess;
}

// Until all ranks of the group are here.
int join(World& w, Guard& guard, Group& group, int rank) {
  for (const int card : group.cards) group.is_refused = group.is_refused || card == current_device;
  group.cards[static_cast<size_t>(rank)] = current_device;
  w.changed.notify_all();
  const auto timeout = std::chrono::duration<double>(w.settings.timeout_s);
  const auto is_over = [&] { return group.is_refused || group.is_whole(); };
  if (!w.changed.wait_for(guard, timeout, is_over)) return fail(kSystem, "a rank did not come");
  return group.is_refused ? fail(kInvalidUsage, "Duplicate GPU detected") : kNcclSuccess;
}

}  // namespace

StandInNcclCounts stand_in_nccl_counts() {
  World& w = world();
  const Guard guard(w.mutex);
  StandInNcclCounts counts = state().counts;
  counts.communicators = static_cast<int64_t>(state().comms.size());
  return counts;
}

void stand_in_nccl_reset(size_t bytes_of_communicator, int version) {
  World& w = world();
  const Guard guard(w.mutex);
  state().counts = {};
  state().bytes = bytes_of_communicator;
  state().version = version;
}

extern "C" {

int ncclGetVersion(int* version) {
  *version = state().version;
  return kNcclSuccess;
}

const char* ncclGetErrorString(int result) {
  if (result == kUnhandledCuda) return "unhandled cuda error";
  if (result == kSystem) return "unhandled system error";
  if (result == kInvalidUsage) return "invalid usage";
  return result == kNcclSuccess ? "no error" : "an error of the stand-in";
}

const char* ncclGetLastError(NcclComm) {
  thread_local std::string kept;
  World& w = world();
  const Guard guard(w.mutex);
  kept = state().last_error;
  return kept.c_str();
}

int ncclGetUniqueId(NcclUniqueId* id) {
  World& w = world();
  const Guard guard(w.mutex);
  if (fails(w)) return fail(kSystem, "no address");
  *id = {};
  std::snprintf(id->bytes, sizeof id->bytes, "group %lld", static_cast<long long>(++state().ids));
  return kNcclSuccess;
}

int ncclCommInitRank(NcclComm* comm, int ranks, NcclUniqueId id, int rank) {
  World& w = world();
  auto made = std::make_unique<Comm>();
  {
    Guard guard(w.mutex);
    if (fails(w)) return fail(kSystem, "no address");
    if (rank < 0 || rank >= ranks || current_device < 0) return fail(kInvalidArgument, "no such rank, or no card");
    std::weak_ptr<Group>& known = state().groups[std::string(id.bytes, sizeof id.bytes)];
    made->group = known.lock();
    if (!made->group) known = made->group = std::make_shared<Group>(ranks);
    made->rank = rank;
    const int joined = join(w, guard, *made->group, rank);
    if (joined != kNcclSuccess) return joined;
  }
  if (cuMemAlloc_v2(&made->buffers, state().bytes) != kSuccess) return kUnhandledCuda;
  const Guard guard(w.mutex);
  *comm = reinterpret_cast<NcclComm>(made.get());
  state().comms.insert(made.release());
  return kNcclSuccess;
}

int ncclCommDestroy(NcclComm handle) {
  World& w = world();
  auto* const comm = reinterpret_cast<Comm*>(handle);
  {
    const Guard guard(w.mutex);
    if (state().comms.erase(comm) == 0) return fail(kInvalidArgument, "no such communicator");
  }
  cuMemFree_v2(comm->buffers);
  delete comm;
  return kNcclSuccess;
}

int ncclCommAbort(NcclComm handle) {
  World& w = world();
  {
    const Guard guard(w.mutex);
    reinterpret_cast<Comm*>(handle)->group->is_aborted = true;
    w.changed.notify_all();
  }
  return ncclCommDestroy(handle);
}

int ncclCommGetAsyncError(NcclComm handle, int* error) {
  World& w = world();
  const Guard guard(w.mutex);
  *error = reinterpret_cast<Comm*>(handle)->group->is_aborted ? kRemote : kNcclSuccess;
  return kNcclSuccess;
}

int ncclAllReduce(const void* from, void* to, size_t count, int type, int, NcclComm comm, StreamHandle stream) {
  return collective({Op::Kind::all_reduce, static_cast<const char*>(from), static_cast<char*>(to), count, type, 0},
                    comm, stream);
}

int ncclReduce(const void* from, void* to, size_t count, int type, int, int root, NcclComm comm, StreamHandle stream) {
  return collective({Op::Kind::reduce, static_cast<const char*>(from), static_cast<char*>(to), count, type, root}, comm,
                    stream);
}

int ncclReduceScatter(const void* from, void* to, size_t count, int type, int, NcclComm comm, StreamHandle stream) {
  return collective({Op::Kind::reduce_scatter, static_cast<const char*>(from), static_cast<char*>(to), count, type, 0},
                    comm, stream);
}

int ncclAllGather(const void* from, void* to, size_t count, int type, NcclComm comm, StreamHandle stream) {
  return collective({Op::Kind::all_gather, static_cast<const char*>(from), static_cast<char*>(to), count, type, 0},
                    comm, stream);
}

int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, NcclComm comm, StreamHandle stream) {
  return collective({Op::Kind::broadcast, static_cast<const char*>(from), static_cast<char*>(to), count, type, root},
                    comm, stream);
}

int ncclGroupStart() {
  ++grouped.depth;
  return kNcclSuccess;
}

int ncclGroupEnd() {
  World& w = world();
  const Guard guard(w.mutex);
  if (--grouped.depth > 0) return kNcclSuccess;
  const Grouped all = std::exchange(grouped, {});
  if (all.has_failed) return fail(kUnhandledCuda, "a call of the group failed");
  return put_launch(w, all.comm, all.ops, all.stream);
}

}  // extern "C"
