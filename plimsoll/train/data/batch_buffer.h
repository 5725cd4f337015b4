// The memory of one batch: every field of all its samples, and which samples they are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "plimsoll/device/pinned.h"
#include "plimsoll/train/data/pipeline.h"

namespace plimsoll::train::data {

// Where the fields of a batch are in its memory.
struct BatchLayout {
  BatchLayout(const std::vector<Field>& fields, int64_t batch, const device::Device* pinned_for = nullptr);

  std::vector<Field> fields;
  std::vector<int64_t> offsets;       // of each field
  std::vector<int64_t> sample_bytes;  // of each field
  int64_t batch = 0;
  int64_t bytes = 0;                           // of the memory, the indices included
  const device::Device* pinned_for = nullptr;  // the memory is page-locked for copies to it
};

// Pages of its own, which go back to the system with it. What a pipeline writes while it fills the batch is guarded by
// the pipeline's lock; its memory is written by whoever claimed the rows, and only read once it is delivered.
class BatchBuffer : public DataBatch {
 public:
  // SystemError when there is no memory. The layout must outlive the buffer.
  explicit BatchBuffer(const BatchLayout& layout);
  ~BatchBuffer() override;
  BatchBuffer(const BatchBuffer&) = delete;
  BatchBuffer& operator=(const BatchBuffer&) = delete;

  int64_t size() const override { return count; }
  int64_t first() const override { return begins; }
  int64_t size_of_whole() const override { return whole; }
  std::span<const int64_t> indices() const override { return {indices_, static_cast<size_t>(count)}; }
  std::span<const std::byte> field(size_t i) const override;
  const std::vector<Field>& fields() const override { return layout_.fields; }
  void read(const program::Program& program, program::Value input, int64_t first,
            std::span<std::byte> into) const override;
  std::optional<int64_t> index_of(int64_t sample) const override;

  // Memory for the fields of one row; `spans` has room for them.
  void row(int64_t row, std::vector<std::span<std::byte>>& spans) const;
  void set_index(int64_t row, int64_t index) const { indices_[row] = index; }

  int64_t id = 0;       // for the trace
  int64_t epoch = 0;    // what it is being filled with
  int64_t place = 0;    // of its first sample in the epoch's order
  int64_t begins = 0;   // that sample in the batch
  int64_t whole = 0;    // samples of the batch
  int64_t count = 0;    // of them, that it has
  int64_t claimed = 0;  // rows that someone fills or has filled
  int64_t filled = 0;
  int64_t failed_row = -1;  // the first that could not be read, where that is fatal
  std::exception_ptr failure;

 private:
  const BatchLayout& layout_;
  std::unique_ptr<device::PinnedMemory> pinned_;
  std::byte* data_ = nullptr;
  int64_t* indices_ = nullptr;
};

}  // namespace plimsoll::train::data
