// A file for what does not fit in memory, with a thread of its own that moves bytes while others compute. The file has
// no name from the start: it is gone when the process is, however that ends.
//
// Transfers run one after the other in the order in which they were asked for; a read sees every write before it. The
// caller keeps the memory of a transfer alive, and unchanged for a write, until it has waited for it. For one caller at
// a time.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace plimsoll {

class SpillFile {
 public:
  // SystemError that names the folder when it is missing, read-only, in memory itself, or cannot hold such files.
  explicit SpillFile(std::string folder);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  // Where in the file the slot of this key is: `bytes` of zeros when it is first asked for, kept as long as the file.
  // The disk has given the room then; SystemError when it is full. ArgumentError for another size than before.
  int64_t slot(int64_t key, int64_t bytes);

  using Job = int64_t;
  Job read(std::byte* into, int64_t bytes, int64_t offset);
  Job write(const std::byte* from, int64_t bytes, int64_t offset);

  // Until the job and all before it are done. SystemError when one of them failed; all that come later fail likewise.
  void wait(Job job);

  int64_t bytes() const { return bytes_; }
  const std::string& folder() const { return folder_; }

  // For tests: the nth transfer from now (0: the next) fails with this errno.
  void fail_transfer(int64_t nth, int error);

 private:
  struct Transfer {
    std::byte* data;
    int64_t bytes;
    int64_t offset;
    bool writes;
  };
  struct Slot {
    int64_t offset;
    int64_t bytes;
  };
  Job queue(const Transfer& transfer);
  void work();
  int move(const Transfer& transfer) const;  // 0 or an errno

  std::string folder_;
  int fd_ = -1;
  int64_t bytes_ = 0;
  std::map<int64_t, Slot> slots_;

  std::mutex lock_;
  std::condition_variable asked_;
  std::condition_variable done_;
  std::deque<Transfer> waiting_;
  Job next_ = 0;       // number of the next job
  Job finished_ = -1;  // all up to this one are done
  int error_ = 0;      // of the first that failed
  int64_t fail_at_ = -1;
  int fail_with_ = 0;
  bool stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace plimsoll
