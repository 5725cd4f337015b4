// Where blocks go that a pool has no room for and that are not computed again: slots of a spill file, used again when
// what lay there is read back or not wanted any more. Copies are waited for: there is nothing to do beside them.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "plimsoll/memory/spill_file.h"
#include "plimsoll/run/eager/engine.h"

namespace plimsoll::eager {

class SpillStore;

// The bytes of one block in the file. Its slot is free when the last that holds it goes.
class SpilledBlock {
 public:
  SpilledBlock(std::shared_ptr<SpillStore> spill_store, int64_t offset, int64_t bytes)
      : spill_store_(std::move(spill_store)), offset_(offset), bytes_(bytes) {}
  ~SpilledBlock();
  SpilledBlock(const SpilledBlock&) = delete;
  SpilledBlock& operator=(const SpilledBlock&) = delete;

  // A block with these bytes: the same for all that ask while it is there and as it was. ResourceExhausted,
  // SystemError.
  std::shared_ptr<Storage> fetch(Engine& engine);

 private:
  std::shared_ptr<SpillStore> spill_store_;
  int64_t offset_;
  int64_t bytes_;
  std::weak_ptr<Storage> back_;
};

class SpillStore : public std::enable_shared_from_this<SpillStore> {
 public:
  // SystemError as from SpillFile.
  explicit SpillStore(const std::string& folder) : file_(folder) {}

  // SystemError when the disk is full.
  std::shared_ptr<SpilledBlock> put(const Storage& storage);

  // That so many bytes likely take there and back, as copies so far did.
  double seconds(int64_t bytes) const { return 2 * static_cast<double>(bytes) * moved_s_ / moved_bytes_; }

 private:
  friend class SpilledBlock;
  int64_t take_slot(int64_t bytes);
  void read(std::byte* into, int64_t bytes, int64_t offset);
  void wait(SpillFile::Job job, int64_t bytes);

  SpillFile file_;
  std::multimap<int64_t, int64_t> free_;  // offsets of slots, by their bytes
  int64_t slots_ = 0;
  double moved_bytes_ = 5e8;  // a guess, until there are copies
  double moved_s_ = 1;
};

}  // namespace plimsoll::eager
