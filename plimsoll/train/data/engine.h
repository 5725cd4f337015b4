// What is behind a Pipeline: batch buffers in the order of delivery, workers that fill them, and the caller of next(),
// who fills rows as well rather than wait. Batches in use keep it alive.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "plimsoll/train/data/batch_buffer.h"
#include "plimsoll/train/data/order.h"
#include "plimsoll/train/data/pipeline.h"

namespace plimsoll::train::data {

class Pipeline::Engine : public std::enable_shared_from_this<Engine> {
 public:
  Engine(std::shared_ptr<const Source> source, const PipelineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  std::shared_ptr<const DataBatch> next();
  void stop();  // ends the workers; the batches in use stay

  int64_t epoch_samples() const;  // that an epoch delivers
  int64_t batches_per_epoch() const { return (epoch_samples() + options_.batch - 1) / options_.batch; }
  const Source& source() const { return *source_; }
  Position position() const;
  void seek(Position position);
  int64_t memory_bytes() const;
  int64_t least_bytes() const;
  void set_max_bytes(int64_t bytes);
  int64_t max_bytes() const;
  int64_t batch_bytes() const { return layout_.bytes; }
  void set_max_workers(int workers);
  int64_t reading_bytes() const;
  PipelineStats stats() const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  // Rows of a buffer that one thread fills.
  struct Claim {
    BatchBuffer* buffer = nullptr;
    int64_t first = 0;
    int64_t end = 0;
  };

  void work(int number);
  Claim claim();                          // under the lock; no buffer: nothing to do
  Claim claim_rows(BatchBuffer& buffer);  // under the lock
  BatchBuffer* assign();                  // under the lock: the next batch's buffer
  int64_t batch_from(int64_t sample) const { return std::min(options_.batch, epoch_samples() - sample); }
  bool has_spare();               // under the lock: a spare buffer, made where there is none
  bool has_room() const;          // under the lock: for another batch ahead
  bool has_work() const;          // under the lock: rows to claim, or has_room
  void fill(const Claim& claim);  // without it
  void read_row(const BatchBuffer& buffer, int64_t row, int64_t index, SampleMemory into);
  bool try_read(int64_t index, int64_t epoch, SampleMemory into, bool last);
  void complete(const Claim& claim, int64_t failed_row, const std::exception_ptr& failure);  // under the lock
  static bool is_ready(const BatchBuffer& buffer) { return buffer.filled == buffer.count; }
  using Pending = std::deque<std::unique_ptr<BatchBuffer>>;
  Pending::iterator next_ready();  // under the lock: of the batches that may be next; the end: none is ready
  Pending::iterator wait_for_batch(Lock& lock);
  void grow();                                                                 // under the lock: after a wait
  void start_workers();                                                        // under the lock
  std::shared_ptr<const DataBatch> deliver(const Pending::iterator& pending);  // under the lock
  void release(BatchBuffer* buffer);
  void discard(std::unique_ptr<BatchBuffer> buffer);  // under the lock
  void drop_last_pending(Lock& lock);                 // waits until nobody fills it
  void shrink(Lock& lock);
  int64_t most_buffers(int64_t bytes) const;  // under the lock
  int64_t booked_reading() const;             // under the lock
  void note_memory();                         // under the lock
  EpochOrder order_of(int64_t epoch) const;

  const std::shared_ptr<const Source> source_;
  const PipelineOptions options_;
  const BatchLayout layout_;
  uint32_t tag_ = 0;
  const int64_t resting_bytes_ = source_->memory_bytes();  // of the source while nobody reads

  mutable std::mutex mutex_;                          // guards all below
  std::condition_variable work_;                      // for workers: a batch to fill
  std::condition_variable filled_;                    // for the caller: rows were filled
  Position next_;                                     // to be delivered
  Position assigned_;                                 // to be filled
  std::deque<std::unique_ptr<BatchBuffer>> pending_;  // assigned and not delivered, in order
  std::vector<std::unique_ptr<BatchBuffer>> spare_;
  std::vector<std::unique_ptr<BatchBuffer>> in_use_;
  int64_t buffers_ = 0;           // all three
  int64_t made_ = 0;              // ever
  int64_t most_had_ = INT64_MAX;  // buffers, where the system gave no more
  int64_t max_bytes_;
  int64_t depth_;      // pending batches, at most
  int max_workers_;    // at most, where their number is automatic
  int active_ = 1;     // workers that may work
  double row_ns_ = 0;  // that a row takes, lately; 0: not known yet
  bool stopping_ = false;
  std::vector<std::thread> workers_;
  std::exception_ptr failure_;  // told again by every next() until seek()
  PipelineStats stats_;

  mutable std::mutex skipped_mutex_;  // guards those below
  std::set<int64_t> skipped_;
  std::vector<std::string> skipped_messages_;
};

}  // namespace plimsoll::train::data
