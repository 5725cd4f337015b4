// A stream of the simulated device: a thread of its own works off what is enqueued, with random pauses, so that code
// which forgets to wait is found out. The pauses of a stream follow from its seed.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "plimsoll/device/sim/pages.h"
#include "plimsoll/device/stream.h"

namespace plimsoll::device {

class SimEvent : public Event {
 public:
  // Counts recordings that were asked for, and those that were reached.
  struct State {
    std::mutex lock;
    std::condition_variable reached_more;
    uint64_t asked = 0;
    uint64_t reached = 0;
  };

  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

class SimStream : public Stream {
 public:
  SimStream(const Twins& twins, int threads, uint32_t seed);
  ~SimStream() override;  // when all work is done
  SimStream(const SimStream&) = delete;
  SimStream& operator=(const SimStream&) = delete;

  void enqueue(const std::function<void()>& work) override;
  void copy(std::byte* to, const std::byte* from, int64_t bytes) override;
  void zero(std::byte* at, int64_t bytes) override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void synchronize() override;
  FaultRecord* fault() override { return &fault_; }
  void* native() override { return nullptr; }

 private:
  struct Command {
    enum class Kind : uint8_t { work, copy, zero, record, wait };
    Kind kind = Kind::work;
    const std::function<void()>* work = nullptr;
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    int64_t bytes = 0;
    std::shared_ptr<SimEvent::State> event = nullptr;
    uint64_t recording = 0;
  };

  void push(Command command);
  void work_off(int threads);
  void run(const Command& command);
  void pause();
  std::byte* real(std::byte* at) const;
  const std::byte* real(const std::byte* at) const;

  const Twins& twins_;
  std::minstd_rand random_;  // of the thread
  FaultRecord fault_;
  std::mutex lock_;
  std::condition_variable pushed_;
  std::condition_variable done_;
  std::vector<Command> ring_;  // command n is at n modulo its size
  uint64_t begun_ = 0;         // commands that were pushed
  uint64_t finished_ = 0;
  std::exception_ptr error_;  // the first; what comes after it is left out, but for events
  bool stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace plimsoll::device
