// Where an eager tensor's elements are. A Storage is one block of a pool, returned when the last that shares it goes.
// Data is a view of one: its copies share the storage.
#pragma once

#include <memory>

#include "plimsoll/kernels/kernel.h"
#include "plimsoll/memory/pool.h"

namespace plimsoll::eager {

class Storage {
 public:
  Storage(Pool& pool, const Block& block, int64_t bytes) : pool_(pool), block_(block), bytes_(bytes) {}
  ~Storage() { pool_.free(block_); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return block_.data; }
  int64_t bytes() const { return bytes_; }

  // How often its content was replaced: what was kept for a gradient must not have been.
  int64_t version() const { return version_; }
  void overwritten() { ++version_; }

  // Whether something that was evicted is computed from its content.
  bool is_needed_again() const { return needed_again_; }
  void needed_again() { needed_again_ = true; }

 private:
  Pool& pool_;
  Block block_;
  int64_t bytes_;
  int64_t version_ = 0;
  bool needed_again_ = false;
};

struct Data {
  kernels::TensorDesc desc;  // dtype, shape and strides
  int64_t offset = 0;        // of the first element in the storage, in elements
  std::shared_ptr<Storage> storage = nullptr;

  explicit operator bool() const { return storage != nullptr; }
  std::byte* at() const {
    return desc.elements() == 0 ? storage->data() : storage->data() + offset * element_bytes(desc.dtype);
  }
  program::Type type() const { return {desc.dtype, program::Dims(desc.shape)}; }
  // Nobody else sees the elements, and they lie in row-major order.
  bool is_sole() const { return storage.use_count() == 1 && desc.is_contiguous(); }
};

}  // namespace plimsoll::eager
