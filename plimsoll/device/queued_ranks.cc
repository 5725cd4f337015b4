#include "plimsoll/device/queued_ranks.h"

namespace plimsoll::device {

QueuedRanks::QueuedRanks(std::shared_ptr<Communicator> ranks, size_t capacity)
    : ranks_(std::move(ranks)), ring_(capacity) {}

QueuedRanks::~QueuedRanks() {
  {
    const std::lock_guard held(lock_);
    stop_ = true;
  }
  asked_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void QueuedRanks::all_reduce(DType dtype, std::byte* data, int64_t elements) {
  wait_for(submitted_ - 1);
  ranks_->all_reduce(dtype, data, elements);
}

void QueuedRanks::reduce_scatter(DType dtype, const std::byte* all, int64_t elements, std::byte* own) {
  wait_for(submitted_ - 1);
  ranks_->reduce_scatter(dtype, all, elements, own);
}

void QueuedRanks::all_gather(DType dtype, std::byte* all, int64_t elements) {
  wait_for(submitted_ - 1);
  ranks_->all_gather(dtype, all, elements);
}

void QueuedRanks::broadcast(std::span<std::byte> data, int root) {
  wait_for(submitted_ - 1);
  ranks_->broadcast(data, root);
}

void QueuedRanks::barrier() {
  wait_for(submitted_ - 1);
  ranks_->barrier();
}

void QueuedRanks::start_all_reduce(DType dtype, std::byte* data, int64_t elements) {
  submit({Started::Kind::all_reduce, dtype, nullptr, data, elements});
}

void QueuedRanks::start_reduce_scatter(DType dtype, const std::byte* all, int64_t elements, std::byte* own) {
  submit({Started::Kind::reduce_scatter, dtype, all, own, elements});
}

void QueuedRanks::start_all_gather(DType dtype, std::byte* all, int64_t elements) {
  submit({Started::Kind::all_gather, dtype, nullptr, all, elements});
}

void QueuedRanks::finish(const std::byte* result) {
  int64_t last = -1;
  {
    const std::lock_guard held(lock_);
    for (int64_t ticket = finished_ + 1; ticket < submitted_; ++ticket) {
      if (at(ticket).result == result) last = ticket;
    }
  }
  wait_for(last);
}

void QueuedRanks::drain() {
  std::unique_lock held(lock_);
  done_.wait(held, [&] { return is_idle(); });
}

void QueuedRanks::submit(const Started& started) {
  std::unique_lock held(lock_);
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  done_.wait(held, [&] { return submitted_ - finished_ <= static_cast<int64_t>(ring_.size()); });
  ring_[static_cast<size_t>(submitted_++) % ring_.size()] = started;
  asked_.notify_one();
}

void QueuedRanks::wait_for(int64_t ticket) {
  std::unique_lock held(lock_);
  if (finished_ < ticket) {
    hurry_ = true;
    done_.wait(held, [&] { return finished_ >= ticket; });
    hurry_ = false;
  }
  if (failure_) std::rethrow_exception(failure_);
}

void QueuedRanks::work() {
  std::unique_lock held(lock_);
  for (;;) {
    asked_.wait(held, [&] { return stop_ || !is_idle(); });
    if (is_idle()) return;
    const Started started = at(finished_ + 1);
    const bool broken = failure_ != nullptr;
    held.unlock();
    const std::exception_ptr failure = broken ? nullptr : run(started);
    held.lock();
    if (!failure_) failure_ = failure;
    ++finished_;
    done_.notify_all();
  }
}

std::exception_ptr QueuedRanks::run(const Started& started) const {
  ranks_->yield_processor(&hurry_);
  std::exception_ptr failure;
  try {
    switch (started.kind) {
      case Started::Kind::all_reduce:
        ranks_->all_reduce(started.dtype, started.result, started.elements);
        break;
      case Started::Kind::reduce_scatter:
        ranks_->reduce_scatter(started.dtype, started.all, started.elements, started.result);
        break;
      case Started::Kind::all_gather:
        ranks_->all_gather(started.dtype, started.result, started.elements);
        break;
    }
  } catch (...) {
    failure = std::current_exception();
  }
  ranks_->yield_processor(nullptr);
  return failure;
}

}  // namespace plimsoll::device
