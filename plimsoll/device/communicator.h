// A Communicator is one rank's end of a group of ranks that run the same program: processes of MPI (mpi.h), or threads
// of one process for tests (thread_ranks.h).
//
// Collectives are called by every rank of the group, in the same order, with the same types and sizes; each returns
// when the calling rank has its result. For a fixed number of ranks a sum is taken in a fixed order: the same operands
// give the same bits, on every rank. A rank that fails ends all others (`abort`): a collective that waits for it does
// not return, or throws RankError.
//
// Collectives that are started go on while the caller does other work: their memory is theirs until `finish`. They come
// in one order with those that wait.
//
// Memory is the host's; that of cards is for StreamRanks (stream_ranks.h), which a group of ranks on cards has. Not
// thread-safe: one thread calls at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "plimsoll/base/dtype.h"
#include "plimsoll/base/error.h"

namespace plimsoll::device {

// Another rank failed, or the ranks do not agree on what to do.
class RankError : public Error {
 public:
  using Error::Error;
};

// Elements [first, end) of a tensor that is spread over ranks: parts of one size, but for the last ones, which may be
// smaller or empty.
struct Shard {
  int64_t first = 0;
  int64_t end = 0;

  int64_t size() const { return end - first; }
};
int64_t shard_elements(int64_t elements, int ranks);  // of rank 0: the most that any has
Shard shard_of(int64_t elements, int ranks, int rank);

// The samples of a batch that a rank takes: sizes differ by one at most, and the first ranks have the larger ones.
Shard samples_of(int64_t batch, int ranks, int rank);

class StreamRanks;

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual int local_ranks() const = 0;  // on this machine, this one included
  virtual int local_rank() const = 0;   // among those
  // That it may take for a while during a collective, beside what it has from the start.
  virtual int64_t working_bytes() const = 0;

  // The sum over all ranks, in place. f32, f64 and i64; ArgumentError for others, as from reduce_scatter.
  virtual void all_reduce(DType dtype, std::byte* data, int64_t elements) = 0;
  // This rank's shard of the sum, in `own`. `all` has `elements`, and stays as it is.
  virtual void reduce_scatter(DType dtype, const std::byte* all, int64_t elements, std::byte* own) = 0;
  // Every rank's shard is where shard_of says in `all`; afterwards all of them are. Any dtype.
  virtual void all_gather(DType dtype, std::byte* all, int64_t elements) = 0;
  // The bytes of rank `root`. Waits without using the processor: for what takes long to come.
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  virtual void barrier() = 0;

  // The same, started. As they stand here they wait: a communicator that can do better does (queued_ranks.h).
  virtual void start_all_reduce(DType dtype, std::byte* data, int64_t elements) { all_reduce(dtype, data, elements); }
  virtual void start_reduce_scatter(DType dtype, const std::byte* all, int64_t elements, std::byte* own) {
    reduce_scatter(dtype, all, elements, own);
  }
  virtual void start_all_gather(DType dtype, std::byte* all, int64_t elements) { all_gather(dtype, all, elements); }
  // Until those are done that were started with this result. What one of them failed with is thrown.
  virtual void finish(const std::byte* /*result*/) {}
  // Until none is under way, whatever became of them.
  virtual void drain() {}

  // Collectives in the memory of devices that have one of their own; null: there are none.
  virtual StreamRanks* on_streams() { return nullptr; }

  // While set, collectives leave the processor to others as they wait, but where `hurry` says that somebody waits for
  // them. Nothing: they take it.
  virtual void yield_processor(const std::atomic<bool>* /*hurry*/) {}

  // Ends all ranks, this one too, with this status; where ranks are threads, their collectives throw.
  virtual void abort(int status) = 0;
};

// Of one number each.
double sum_over(Communicator& ranks, double value);
int64_t least_over(Communicator& ranks, int64_t value);
int64_t most_over(Communicator& ranks, int64_t value);

// The text of rank 0, on all.
std::string broadcast_text(Communicator& ranks, std::string text);

// RankError on every rank when the texts differ; `what` they are is told, with the ranks that differ from rank 0.
void require_same_text(Communicator& ranks, const std::string& text, const std::string& what);

}  // namespace plimsoll::device
