// A folder of checkpoints of one run: step-<N>.safetensors, and `latest`, a link to the newest whole one, which is
// replaced in one step. Written on a thread of its own out of staging memory of a fixed size, so that training goes on
// meanwhile: a save waits only while the staging memory is full.
//
// Several ranks write one file together, each its part of every tensor, to a folder that all of them see. It gets its
// name when the last of them has its part on the disk. They call the same in the same order.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "plimsoll/train/checkpoint.h"
#include "plimsoll/train/rank_part.h"

namespace plimsoll::train {

// The file that `latest` links to; where there is none, that of the highest step. Nothing: there are no checkpoints.
std::optional<std::string> newest_checkpoint(const std::string& folder);

// Whether all ranks see what rank 0 has in this folder, which it makes where it is missing. Called by all of them.
bool is_shared_folder(const std::string& folder, const RankPart& part);

// Staging memory that suits tensors of so many bytes within so many of budget: at most 31 MiB and a 32nd of the budget.
int64_t staging_bytes_for(int64_t tensor_bytes, int64_t budget_bytes);

class CheckpointFolder {
 public:
  // Makes the folder where it is missing, and removes what a run that was killed left half written. Of the checkpoints
  // the newest `keep` stay. ArgumentError for keep < 1; SystemError for a folder that cannot be written to, or that
  // another run writes to.
  CheckpointFolder(std::string folder, int64_t keep, int64_t staging_bytes, RankPart part = {});
  // Waits for what was begun.
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  // Begins a checkpoint, when the one before it is done. When this returns, the tensors may change. What fails is told
  // by outcomes().
  void save(const std::vector<KeptTensor>& tensors, const RunState& state);
  // Until all is on the disk.
  void wait();
  // Between steps: with several ranks, gives the file its name where all parts of it are there.
  void poll();

  // What became of those that are done since the last call: a path, or the message of what failed. A checkpoint that
  // fails leaves the ones before it as they were.
  struct Outcome {
    int64_t step = 0;
    std::string path;
    std::string error;  // empty: it is whole
  };
  std::vector<Outcome> outcomes();

  int64_t staging_bytes() const { return block_bytes_ * static_cast<int64_t>(blocks_.size()); }
  const std::string& folder() const { return folder_; }

 private:
  struct Block {
    std::unique_ptr<std::byte[]> memory;  // NOLINT(modernize-avoid-c-arrays)
    int64_t at = 0;                       // in the file
    int64_t bytes = 0;
  };
  struct Filled {
    Block* block = nullptr;  // null: the file ends here
    std::string error = {};  // why, where it ends too early
  };
  void start_folder();
  bool starts_file(const std::vector<KeptTensor>& tensors, const RunState& state);
  void wait_for_own();
  void conclude();
  std::string path_of(int64_t step) const;
  void write_files();
  void write_one(int64_t step);
  template <class File, class F>
  std::string write_blocks(std::optional<File>& file, const std::string& path, const F& finish);
  void finish_shared(const std::string& path);
  Block* take_free();
  void push_filled(Filled filled);
  Filled take_filled();
  void give_back(Block* block);
  void publish(const std::string& path);
  void remove_old() const;

  std::string folder_;
  int64_t keep_;
  RankPart part_;
  int lock_fd_ = -1;
  int64_t block_bytes_;
  std::vector<Block> blocks_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Block*> free_;        // these four: under the mutex
  std::deque<Filled> filled_;      //
  std::deque<int64_t> asked_;      // steps whose files are to be written
  std::vector<Outcome> outcomes_;  //
  bool is_ending_ = false;         //
  bool is_writing_ = false;        //
  std::optional<Outcome> own_;     // of this rank's part of the file that has no name yet; likewise
  bool has_parts_ = false;         // such a file was begun
  std::thread thread_;
};

}  // namespace plimsoll::train
