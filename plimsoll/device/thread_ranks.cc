#include "plimsoll/device/thread_ranks.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "plimsoll/device/queued_ranks.h"

namespace plimsoll::device {
namespace {

// What a rank asks for.
struct Asked {
  std::string call;  // with sizes: all ranks must ask for the same
  const std::byte* data = nullptr;
};

template <class T>
void add_all(const std::vector<const std::byte*>& operands, int64_t first, std::span<T> sums) {
  std::fill(sums.begin(), sums.end(), T{});
  for (const std::byte* operand : operands) {
    const T* from = reinterpret_cast<const T*>(operand) + first;
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += from[i];
  }
}

std::vector<std::byte> sums_of(DType dtype, const std::vector<const std::byte*>& operands, const Shard& shard) {
  std::vector<std::byte> sums(static_cast<size_t>(shard.size() * element_bytes(dtype)));
  const auto as = [&]<class T>(T) {
    add_all(operands, shard.first, std::span(reinterpret_cast<T*>(sums.data()), static_cast<size_t>(shard.size())));
  };
  if (dtype == DType::f32) {
    as(0.0F);
  } else if (dtype == DType::f64) {
    as(0.0);
  } else if (dtype == DType::i64) {
    as(int64_t{0});
  } else {
    throw ArgumentError(fmt::format("ranks sum f32, f64 and i64, not {}", name(dtype)));
  }
  return sums;
}

}  // namespace

struct ThreadRanks::Group {
  Group(int count, ThreadRanksOptions with)
      : ranks(count), options(std::move(with)), asked(static_cast<size_t>(count)) {}

  // Until all ranks are here. The last one checks that all ask for the same.
  void meet() {
    std::unique_lock lock(mutex);
    throw_if_failed();
    const int64_t meeting = meetings;
    if (++here == ranks) {
      here = 0;
      ++meetings;
      check();
      met.notify_all();
      throw_if_failed();
      return;
    }
    const auto timeout = std::chrono::duration<double>(options.timeout_s);
    const bool came = met.wait_for(lock, timeout, [&] { return meetings != meeting || !failure.empty(); });
    if (!came) fail(fmt::format("a rank did not come to {} within {} s", asked[0].call, options.timeout_s));
    throw_if_failed();
  }

  // `mutex` is held, as by all below.
  void check() {
    for (size_t rank = 1; rank < asked.size(); ++rank) {
      if (asked[rank].call == asked[0].call) continue;
      fail(fmt::format("rank 0 is at {}, rank {} at {}", asked[0].call, rank, asked[rank].call));
    }
  }
  void fail(const std::string& why) {
    if (failure.empty()) failure = why;
    met.notify_all();
  }
  void throw_if_failed() const {
    if (!failure.empty()) throw RankError(failure);
  }

  const int ranks;
  const ThreadRanksOptions options;
  std::mutex mutex;
  std::condition_variable met;
  std::vector<Asked> asked;
  int here = 0;
  int64_t meetings = 0;
  std::string failure;  // empty: none
};

class ThreadRanks::Member : public Communicator {
 public:
  Member(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int ranks() const override { return group_->ranks; }
  int local_ranks() const override { return group_->ranks; }
  int local_rank() const override { return rank_; }
  int64_t working_bytes() const override { return 0; }

  void all_reduce(DType dtype, std::byte* data, int64_t elements) override {
    const auto operands = exchange(fmt::format("all_reduce of {} {}", elements, name(dtype)), data);
    const std::vector<std::byte> sums = sums_of(dtype, operands, {0, elements});
    group_->meet();  // nobody reads the operands any more
    copy(sums, data);
  }

  void reduce_scatter(DType dtype, const std::byte* all, int64_t elements, std::byte* own) override {
    const auto operands = exchange(fmt::format("reduce_scatter of {} {}", elements, name(dtype)), all);
    const std::vector<std::byte> sums = sums_of(dtype, operands, shard_of(elements, ranks(), rank_));
    group_->meet();
    copy(sums, own);
  }

  void all_gather(DType dtype, std::byte* all, int64_t elements) override {
    const auto operands = exchange(fmt::format("all_gather of {} {}", elements, name(dtype)), all);
    const int64_t size = element_bytes(dtype);
    for (int other = 0; other < ranks(); ++other) {
      const Shard shard = shard_of(elements, ranks(), other);
      if (other == rank_ || shard.size() == 0) continue;
      std::memcpy(all + shard.first * size, operands[static_cast<size_t>(other)] + shard.first * size,
                  static_cast<size_t>(shard.size() * size));
    }
    group_->meet();
  }

  void broadcast(std::span<std::byte> data, int root) override {
    const auto operands = exchange(fmt::format("broadcast of {} bytes from rank {}", data.size(), root), data.data());
    if (root != rank_ && !data.empty()) std::memcpy(data.data(), operands[static_cast<size_t>(root)], data.size());
    group_->meet();
  }

  void barrier() override {
    exchange("barrier", nullptr);
    group_->meet();
  }

  void abort(int) override {
    const std::scoped_lock lock(group_->mutex);
    group_->fail(fmt::format("rank {} failed", rank_));
  }

 private:
  std::vector<const std::byte*> exchange(std::string call, const std::byte* data) {
    if (group_->options.before) group_->options.before(rank_, calls_);
    ++calls_;
    {
      const std::scoped_lock lock(group_->mutex);
      group_->asked[static_cast<size_t>(rank_)] = {std::move(call), data};
    }
    group_->meet();
    std::vector<const std::byte*> operands;
    for (const Asked& asked : group_->asked) operands.push_back(asked.data);
    return operands;
  }

  static void copy(const std::vector<std::byte>& from, std::byte* to) {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
  }

  std::shared_ptr<Group> group_;
  int rank_;
  int64_t calls_ = 0;
};

ThreadRanks::ThreadRanks(int ranks, ThreadRanksOptions options) {
  if (ranks < 1) throw ArgumentError(fmt::format("a group has 1 rank at least, not {}", ranks));
  group_ = std::make_shared<Group>(ranks, std::move(options));
}

ThreadRanks::~ThreadRanks() = default;

std::shared_ptr<Communicator> ThreadRanks::rank(int rank) const {
  return std::make_shared<QueuedRanks>(std::make_shared<Member>(group_, rank));
}

void ThreadRanks::run(const std::function<void(const std::shared_ptr<Communicator>&)>& f) const {
  std::vector<std::exception_ptr> causes(static_cast<size_t>(group_->ranks));
  std::vector<std::exception_ptr> consequences(causes.size());
  std::vector<std::thread> threads;
  for (int i = 0; i < group_->ranks; ++i) {
    threads.emplace_back([&, i] {
      const std::shared_ptr<Communicator> member = rank(i);
      try {
        f(member);
      } catch (const RankError& error) {
        consequences[static_cast<size_t>(i)] = std::current_exception();
        const std::scoped_lock lock(group_->mutex);
        group_->fail(error.what());  // what one rank alone may have found out is told by all
      } catch (...) {
        causes[static_cast<size_t>(i)] = std::current_exception();
        member->abort(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto* list : {&causes, &consequences}) {
    for (const std::exception_ptr& thrown : *list) {
      if (thrown) std::rethrow_exception(thrown);
    }
  }
}

}  // namespace plimsoll::device
