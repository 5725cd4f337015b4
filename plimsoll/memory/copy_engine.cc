#include "plimsoll/memory/copy_engine.h"

#include "plimsoll/base/error.h"

namespace plimsoll {

CopyEngine::CopyEngine(FarEnd& far_end, std::string what, size_t capacity)
    : far_end_(far_end), what_(std::move(what)), ring_(capacity), thread_([this] { work(); }) {}

CopyEngine::~CopyEngine() {
  {
    const std::lock_guard held(lock_);
    stop_ = true;
  }
  asked_.notify_one();
  thread_.join();
}

CopyEngine::Ticket CopyEngine::submit(const Copy& copy) {
  std::unique_lock held(lock_);
  done_.wait(held, [&] { return submitted_ - finished_ <= static_cast<Ticket>(ring_.size()); });
  ring_[static_cast<size_t>(submitted_) % ring_.size()] = copy;
  asked_.notify_one();
  return submitted_++;
}

void CopyEngine::wait(Ticket ticket) {
  std::unique_lock held(lock_);
  done_.wait(held, [&] { return finished_ >= ticket; });
  if (error_ != 0) throw SystemError::from_errno(what_, error_);
}

void CopyEngine::drain() {
  std::unique_lock held(lock_);
  done_.wait(held, [&] { return is_idle(); });
}

void CopyEngine::work() {
  std::unique_lock held(lock_);
  for (;;) {
    asked_.wait(held, [&] { return stop_ || !is_idle(); });
    if (is_idle()) return;
    const Copy copy = next();
    const bool broken = error_ != 0;
    held.unlock();
    const int error = broken ? 0 : far_end_.move(copy);
    held.lock();
    if (error_ == 0) error_ = error;
    ++finished_;
    done_.notify_all();
  }
}

}  // namespace plimsoll
