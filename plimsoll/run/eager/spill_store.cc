#include "plimsoll/run/eager/spill_store.h"

#include <chrono>

namespace plimsoll::eager {

SpilledBlock::~SpilledBlock() { spill_store_->free_.emplace(bytes_, offset_); }

std::shared_ptr<Storage> SpilledBlock::fetch(Engine& engine) {
  auto storage = back_.lock();
  if (storage && storage->version() == 0) return storage;
  storage = engine.allocate({DType::u8, {bytes_}}, Category::activation, "fetched").storage;
  spill_store_->read(storage->data(), bytes_, offset_);
  back_ = storage;
  return storage;
}

std::shared_ptr<SpilledBlock> SpillStore::put(const Storage& storage) {
  const int64_t bytes = storage.bytes();
  const int64_t offset = take_slot(bytes);
  auto spilled = std::make_shared<SpilledBlock>(shared_from_this(), offset, bytes);
  wait(file_.write(storage.data(), bytes, offset), bytes);
  return spilled;
}

int64_t SpillStore::take_slot(int64_t bytes) {
  const auto found = free_.find(bytes);
  if (found == free_.end()) return file_.slot(slots_++, bytes);
  const int64_t offset = found->second;
  free_.erase(found);
  return offset;
}

void SpillStore::read(std::byte* into, int64_t bytes, int64_t offset) { wait(file_.read(into, bytes, offset), bytes); }

void SpillStore::wait(SpillFile::Job job, int64_t bytes) {
  const auto start = std::chrono::steady_clock::now();
  file_.wait(job);
  moved_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  moved_bytes_ += static_cast<double>(bytes);
}

}  // namespace plimsoll::eager
