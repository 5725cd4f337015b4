// A communicator whose collectives can be started: a thread of its own calls them, one after the other, in the order in
// which they were started. Those that wait do so until all before them are done, and then run in the thread that calls.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "plimsoll/device/communicator.h"

namespace plimsoll::device {

class QueuedRanks : public Communicator {
 public:
  // `ranks` may be called from different threads, one at a time. The thread is started with the first collective that
  // is. Starting waits only where `capacity` are under way.
  explicit QueuedRanks(std::shared_ptr<Communicator> ranks, size_t capacity = 1024);
  ~QueuedRanks() override;  // when all that was started is done
  QueuedRanks(const QueuedRanks&) = delete;
  QueuedRanks& operator=(const QueuedRanks&) = delete;

  int rank() const override { return ranks_->rank(); }
  int ranks() const override { return ranks_->ranks(); }
  int local_ranks() const override { return ranks_->local_ranks(); }
  int local_rank() const override { return ranks_->local_rank(); }
  int64_t working_bytes() const override { return ranks_->working_bytes(); }

  void all_reduce(DType dtype, std::byte* data, int64_t elements) override;
  void reduce_scatter(DType dtype, const std::byte* all, int64_t elements, std::byte* own) override;
  void all_gather(DType dtype, std::byte* all, int64_t elements) override;
  void broadcast(std::span<std::byte> data, int root) override;
  void barrier() override;

  void start_all_reduce(DType dtype, std::byte* data, int64_t elements) override;
  void start_reduce_scatter(DType dtype, const std::byte* all, int64_t elements, std::byte* own) override;
  void start_all_gather(DType dtype, std::byte* all, int64_t elements) override;
  void finish(const std::byte* result) override;
  void drain() override;

  void abort(int status) override { ranks_->abort(status); }

 private:
  struct Started {
    enum class Kind : uint8_t { all_reduce, reduce_scatter, all_gather };
    Kind kind = Kind::all_reduce;
    DType dtype = DType::f32;
    const std::byte* all = nullptr;  // reduce_scatter alone
    std::byte* result = nullptr;
    int64_t elements = 0;
  };

  void submit(const Started& started);
  void wait_for(int64_t ticket);  // RankError and others of those that failed until then
  void work();
  std::exception_ptr run(const Started& started) const;
  const Started& at(int64_t ticket) const { return ring_[static_cast<size_t>(ticket) % ring_.size()]; }
  bool is_idle() const { return finished_ + 1 == submitted_; }

  std::shared_ptr<Communicator> ranks_;
  std::mutex lock_;
  std::condition_variable asked_;
  std::condition_variable done_;
  std::vector<Started> ring_;   // ticket t is at t modulo its size
  int64_t submitted_ = 0;       // tickets given out
  int64_t finished_ = -1;       // all up to this one are done
  std::exception_ptr failure_;  // of the first that failed: none after it runs
  std::atomic<bool> hurry_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace plimsoll::device
