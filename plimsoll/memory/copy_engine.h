// Moves bytes between memory and somewhere else (a file; later the memory of a device) while others compute: a queue,
// and a thread that works it off. Copies are done one after the other in the order in which they were asked for, so one
// that brings bytes back sees all that went before it.
//
// The caller keeps the memory of a copy alive, unchanged when it goes out and unread when it comes in, until it has
// waited for its ticket. For one caller at a time. Nothing is allocated after the engine is made.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace plimsoll {

struct Copy {
  std::byte* memory = nullptr;
  int64_t bytes = 0;
  int64_t offset = 0;  // at the far end
  bool goes_out = false;
};

// The other end of copies.
class FarEnd {
 public:
  virtual ~FarEnd() = default;
  // Moves all bytes of a copy. 0, or the errno of what went wrong. Called by the engine's thread alone.
  virtual int move(const Copy& copy) = 0;
};

class CopyEngine {
 public:
  // `what` begins the message of a copy that fails: "moving data through the spill file in /tmp". At most `capacity`
  // copies are under way. The far end must outlive the engine.
  CopyEngine(FarEnd& far_end, std::string what, size_t capacity = 1024);
  ~CopyEngine();  // when all copies are done
  CopyEngine(const CopyEngine&) = delete;
  CopyEngine& operator=(const CopyEngine&) = delete;

  using Ticket = int64_t;
  // Waits only when the queue is full.
  Ticket submit(const Copy& copy);

  // Until the copy and all before it are done. SystemError when one of them failed; all that come later fail likewise.
  void wait(Ticket ticket);

  // Until none is under way, whatever became of them: memory of copies may go then.
  void drain();

 private:
  void work();
  const Copy& next() const { return ring_[static_cast<size_t>(finished_ + 1) % ring_.size()]; }
  bool is_idle() const { return finished_ + 1 == submitted_; }

  FarEnd& far_end_;
  std::string what_;
  std::mutex lock_;
  std::condition_variable asked_;
  std::condition_variable done_;
  std::vector<Copy> ring_;  // ticket t lies at t modulo its size
  Ticket submitted_ = 0;    // tickets given out
  Ticket finished_ = -1;    // all up to this one are done
  int error_ = 0;           // of the first that failed
  bool stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace plimsoll
