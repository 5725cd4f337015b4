// The bytes of one checkpoint on their way to the disk and back, by plain reads and writes: nothing is mapped, and what
// was written leaves the system's cache, which would count as memory of the process's cgroup.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "plimsoll/train/checkpoint.h"
#include "plimsoll/train/rank_part.h"

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

  void write(std::span<const std::byte> bytes);                                   // SystemError when the disk is full
  void write(int64_t /*at*/, std::span<const std::byte> bytes) { write(bytes); }  // that come in order
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

// A part of a file that several processes write. One makes it, of its full size and without its name; all open it and
// finish their parts; then it is given its name: until then, and where it is not, what had that name stays.
class CheckpointPart {
 public:
  explicit CheckpointPart(
      const std::string& path);  // SystemError where it was not made, or not for this process to see
  ~CheckpointPart();
  CheckpointPart(const CheckpointPart&) = delete;
  CheckpointPart& operator=(const CheckpointPart&) = delete;

  void write(int64_t offset, std::span<const std::byte> bytes);  // SystemError when the disk is full
  void finish();                                                 // all of them are on the disk

 private:
  std::string path_;
  int fd_ = -1;
  int64_t unflushed_ = 0;
};
void make_shared_file(const std::string& path, int64_t bytes);
void name_shared_file(const std::string& path);
void discard_shared_file(const std::string& path);

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
// With the place in the file of each; of several ranks, those that this one has or is to write. All bytes are of one.
void stream_part(const std::vector<KeptTensor>& tensors, const RunState& state, const RankPart& part, int64_t most,
                 const std::function<void(int64_t at, int64_t bytes, const FillBytes& fill)>& next);
int64_t bytes_of_checkpoint(const std::vector<KeptTensor>& tensors, const RunState& state);
void stream_checkpoint(const std::vector<KeptTensor>& tensors, const RunState& state, int64_t most,
                       const std::function<void(int64_t bytes, const FillBytes& fill)>& next);

}  // namespace plimsoll::train
