#include "plimsoll/device/sim/stream.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "plimsoll/device/threads.h"

namespace plimsoll::device {
namespace {

constexpr size_t kCapacity = 1024;  // commands under way; one more waits
constexpr unsigned kPauseOneIn = 16;
constexpr unsigned kLongestPauseUs = 100;

SimEvent::State& state_of(const Event& event) { return *dynamic_cast<const SimEvent&>(event).state(); }

}  // namespace

SimStream::SimStream(const Twins& twins, int threads, uint32_t seed)
    : twins_(twins), random_(seed), ring_(kCapacity), thread_([this, threads] { work_off(threads); }) {}

SimStream::~SimStream() {
  {
    const std::lock_guard held(lock_);
    stop_ = true;
  }
  pushed_.notify_one();
  thread_.join();
}

void SimStream::push(Command command) {
  std::unique_lock held(lock_);
  done_.wait(held, [&] { return begun_ - finished_ < ring_.size(); });
  ring_[begun_++ % ring_.size()] = std::move(command);
  pushed_.notify_one();
}

void SimStream::enqueue(const std::function<void()>& work) { push({.kind = Command::Kind::work, .work = &work}); }

void SimStream::copy(std::byte* to, const std::byte* from, int64_t bytes) {
  push({.kind = Command::Kind::copy, .to = to, .from = from, .bytes = bytes});
}

void SimStream::zero(std::byte* at, int64_t bytes) { push({.kind = Command::Kind::zero, .to = at, .bytes = bytes}); }

void SimStream::record(Event& event) {
  SimEvent::State& state = state_of(event);
  uint64_t recording = 0;
  {
    const std::lock_guard held(state.lock);
    recording = ++state.asked;
  }
  push({.kind = Command::Kind::record, .event = dynamic_cast<SimEvent&>(event).state(), .recording = recording});
}

void SimStream::wait(const Event& event) {
  SimEvent::State& state = state_of(event);
  uint64_t recording = 0;
  {
    const std::lock_guard held(state.lock);
    recording = state.asked;
  }
  push({.kind = Command::Kind::wait, .event = dynamic_cast<const SimEvent&>(event).state(), .recording = recording});
}

void SimStream::synchronize() {
  std::unique_lock held(lock_);
  done_.wait(held, [&] { return finished_ == begun_; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (fault_.op != 0) throw KernelFault(std::exchange(fault_, {}));
}

void SimStream::work_off(int threads) {
  if (threads > 0) use_threads(threads);
  std::unique_lock held(lock_);
  for (;;) {
    pushed_.wait(held, [&] { return stop_ || finished_ != begun_; });
    if (finished_ == begun_) return;
    const Command command = std::move(ring_[finished_ % ring_.size()]);
    const bool is_event = command.kind == Command::Kind::record || command.kind == Command::Kind::wait;
    const bool left_out = error_ != nullptr && !is_event;
    held.unlock();
    std::exception_ptr error;
    try {
      if (!left_out) run(command);
    } catch (...) {
      error = std::current_exception();
    }
    held.lock();
    if (!error_) error_ = error;
    ++finished_;
    done_.notify_all();
  }
}

void SimStream::run(const Command& command) {
  pause();
  switch (command.kind) {
    case Command::Kind::work:
      return (*command.work)();
    case Command::Kind::copy:
      std::memcpy(real(command.to), real(command.from), static_cast<size_t>(command.bytes));
      return;
    case Command::Kind::zero:
      std::memset(real(command.to), 0, static_cast<size_t>(command.bytes));
      return;
    case Command::Kind::record: {
      const std::lock_guard held(command.event->lock);
      command.event->reached = command.recording;
      command.event->reached_more.notify_all();
      return;
    }
    case Command::Kind::wait: {
      std::unique_lock held(command.event->lock);
      command.event->reached_more.wait(held, [&] { return command.event->reached >= command.recording; });
      return;
    }
  }
}

void SimStream::pause() {
  if (random_() % kPauseOneIn != 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds(random_() % kLongestPauseUs));
}

// An address of the device at its twin, one of the host as it is.
std::byte* SimStream::real(std::byte* at) const {
  std::byte* twin = twins_.find(at);
  return twin != nullptr ? twin : at;
}

const std::byte* SimStream::real(const std::byte* at) const {
  const std::byte* twin = twins_.find(at);
  return twin != nullptr ? twin : at;
}

}  // namespace plimsoll::device
