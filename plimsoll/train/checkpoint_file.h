// The bytes of one checkpoint on their way to the disk and back, by plain reads and writes: nothing is mapped, and what
// was written leaves the system's cache, which would count as memory of the process's cgroup.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "plimsoll/train/checkpoint.h"

namespace plimsoll::train {

// A file that is being written. It appears under its name when it is finished, with all bytes on the disk; until then,
// and where it is not finished, what had that name stays.
class CheckpointFile {
 public:
  // SystemError when the folder cannot be written to.
  explicit CheckpointFile(std::string path);
  ~CheckpointFile();
  CheckpointFile(const CheckpointFile&) = delete;
  CheckpointFile& operator=(const CheckpointFile&) = delete;

  void write(std::span<const std::byte> bytes);  // SystemError when the disk is full
  void finish();

  // The name it has until it is finished; such files of a process that was killed may be removed.
  static std::string unfinished_name(const std::string& path);

 private:
  std::string path_;
  std::string unfinished_;
  int fd_ = -1;
  int64_t written_ = 0;
  int64_t started_ = 0;  // bytes whose way to the disk has begun
};

// A file that is read in parts.
class OpenFile {
 public:
  explicit OpenFile(std::string path);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  // SystemError when the file ends before.
  void read(int64_t offset, std::span<std::byte> into) const;

 private:
  std::string path_;
  int fd_ = -1;
};

// The bytes of the folder's entries on the disk. SystemError.
void sync_folder(const std::string& folder);

// Calls next(bytes, fill) for parts of at most `most` bytes that together are the file; `fill` writes that many into
// memory of the caller's.
using FillBytes = std::function<void(std::span<std::byte>)>;
void stream_checkpoint(const std::vector<KeptTensor>& tensors, const RunState& state, int64_t most,
                       const std::function<void(int64_t bytes, const FillBytes& fill)>& next);

}  // namespace plimsoll::train
