// A file for what does not fit in memory, with a thread of its own that moves bytes while others compute. The file has
// no name from the start: it is gone when the process is, however that ends. The system's cache, which counts as memory
// of the process's cgroup, is passed by where the file system allows it, and little used elsewhere.
//
// Transfers run one after the other in the order in which they were asked for; a read sees every write before it. The
// caller keeps the memory of a transfer alive, and unchanged for a write, until it has waited for it. For one caller at
// a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "plimsoll/memory/copy_engine.h"

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
  // Likewise by name; names and numbers are apart.
  int64_t slot(const std::string& name, int64_t bytes);

  // Where `bytes` begin for what is needed within one step: programs that take turns have them in common. SystemError
  // when the disk is full.
  int64_t region(int64_t bytes);

  using Job = CopyEngine::Ticket;
  Job read(std::byte* into, int64_t bytes, int64_t offset);
  Job write(const std::byte* from, int64_t bytes, int64_t offset);

  // A job to remember for what lies at this offset of the file; the same place each time.
  Job& job_at(int64_t offset) { return jobs_[offset]; }

  // Until the job and all before it are done. SystemError when one of them failed; all that come later fail likewise.
  void wait(Job job) { engine_.wait(job); }
  // Until none is under way, failed or not.
  void drain() { engine_.drain(); }

  int64_t bytes() const { return bytes_; }
  const std::string& folder() const { return folder_; }

  // For tests: the nth transfer from now (0: the next) fails with this errno.
  void fail_transfer(int64_t nth, int error);

 private:
  class File;
  struct Extent {
    int64_t offset = 0;
    int64_t bytes = 0;
  };
  int64_t extend(int64_t bytes);
  template <class Key>
  int64_t slot_in(std::map<Key, Extent>& slots, const Key& key, int64_t bytes);
  Job submit(const Copy& copy);

  std::string folder_;
  std::unique_ptr<File> file_;
  int64_t bytes_ = 0;
  std::map<int64_t, Extent> slots_;
  std::map<std::string, Extent> named_slots_;
  Extent region_;
  std::map<int64_t, Job> jobs_;  // by offset
  int64_t submitted_ = 0;
  CopyEngine engine_;  // last: its thread uses the file
};

}  // namespace plimsoll
