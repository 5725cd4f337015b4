#include "plimsoll/train/data/batch_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>

#include "plimsoll/base/bytes.h"
#include "plimsoll/train/data/convert.h"

namespace plimsoll::train::data {
namespace {

constexpr int64_t kAlignment = 64;

int64_t checked_batch_bytes(int64_t sample, int64_t batch) {
  const auto bytes = checked_multiply(sample, batch);
  if (!bytes || *bytes > INT64_MAX / 4) {
    throw ArgumentError(fmt::format("a batch of {} samples of {} bytes is more than fits in 61 bits", batch, sample));
  }
  return align_up(*bytes, kAlignment);
}

std::byte* map_pages(int64_t bytes) {
  void* mapped = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped != MAP_FAILED) return static_cast<std::byte*>(mapped);
  throw SystemError::from_errno(fmt::format("mapping a batch of {}", format_bytes(bytes)), errno);
}

}  // namespace

BatchLayout::BatchLayout(const std::vector<Field>& of, int64_t samples, const device::Device* device)
    : fields(of), batch(samples), pinned_for(device) {
  for (const Field& field : fields) {
    offsets.push_back(bytes);
    sample_bytes.push_back(field.spec.bytes());
    bytes += checked_batch_bytes(sample_bytes.back(), batch);
  }
  bytes += checked_batch_bytes(sizeof(int64_t), batch);
  if (pinned_for != nullptr) bytes = device::pinned_bytes(bytes);
}

BatchBuffer::BatchBuffer(const BatchLayout& layout) : layout_(layout) {
  if (layout.pinned_for != nullptr) {
    pinned_ = std::make_unique<device::PinnedMemory>(*layout.pinned_for, layout.bytes);
    data_ = pinned_->data();
  } else {
    data_ = map_pages(layout.bytes);
  }
  indices_ = reinterpret_cast<int64_t*>(data_ + layout.bytes - checked_batch_bytes(sizeof(int64_t), layout.batch));
}

BatchBuffer::~BatchBuffer() {
  if (!pinned_) munmap(data_, static_cast<size_t>(layout_.bytes));
}

std::span<const std::byte> BatchBuffer::field(size_t i) const {
  return {data_ + layout_.offsets[i], static_cast<size_t>(layout_.sample_bytes[i] * count)};
}

void BatchBuffer::row(int64_t row, std::vector<std::span<std::byte>>& spans) const {
  spans.clear();
  for (size_t i = 0; i < layout_.offsets.size(); ++i) {
    const int64_t bytes = layout_.sample_bytes[i];
    spans.emplace_back(data_ + layout_.offsets[i] + row * bytes, static_cast<size_t>(bytes));
  }
}

std::optional<int64_t> BatchBuffer::index_of(int64_t sample) const {
  const int64_t row = sample - begins;
  if (row < 0 || row >= count) return std::nullopt;
  return indices_[row];
}

void BatchBuffer::read(const program::Program& program, program::Value input, int64_t from,
                       std::span<std::byte> into) const {
  const program::ValueInfo& info = program[input];
  const int64_t row = from - begins;
  const size_t i = field_of(layout_.fields, program, input);
  const int64_t samples = info.type.shape.empty() ? 1 : info.type.shape[0].constant();
  if (row < 0 || row + samples > count) {
    throw ArgumentError(fmt::format("the batch has {} samples{}, the step reads {} of them from sample {} on", count,
                                    begins > 0 ? fmt::format(" from sample {} on", begins) : "", samples, from));
  }
  const auto bytes = static_cast<size_t>(layout_.sample_bytes[i]);
  convert_samples(layout_.fields[i],
                  field(i).subspan(static_cast<size_t>(row) * bytes, static_cast<size_t>(samples) * bytes), info, into);
}

}  // namespace plimsoll::train::data
