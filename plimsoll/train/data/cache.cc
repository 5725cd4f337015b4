// Samples that were read once, kept in memory or in a file.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/descriptor.h"
#include "plimsoll/train/data/adaptors.h"

namespace plimsoll::train::data {
namespace {

// Pages of memory, or of a file without a name.
class Pages {
 public:
  explicit Pages(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    map(MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, "memory for a cache");
  }
  Pages(int64_t bytes, const std::string& folder) : bytes_(static_cast<size_t>(bytes)) {
    const int fd = keep_apart(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (fd < 0) throw SystemError::from_errno(fmt::format("making a cache file in {}", folder), errno);
    // A file with holes would end the process where the disk is full.
    const int error = posix_fallocate(fd, 0, static_cast<off_t>(std::max<size_t>(1, bytes_)));
    if (error == 0) map(MAP_SHARED, fd, folder);
    close(fd);
    if (error != 0) {
      throw SystemError::from_errno(fmt::format("taking {} in {} for a cache", format_bytes(bytes), folder), error);
    }
  }
  ~Pages() { munmap(data_, std::max<size_t>(1, bytes_)); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::byte* data() const { return data_; }

 private:
  void map(int flags, int fd, const std::string& what) {
    void* mapped = mmap(nullptr, std::max<size_t>(1, bytes_), PROT_READ | PROT_WRITE, flags, fd, 0);
    if (mapped == MAP_FAILED) throw SystemError::from_errno(fmt::format("mapping {}", what), errno);
    data_ = static_cast<std::byte*>(mapped);
  }

  size_t bytes_;
  std::byte* data_ = nullptr;
};

enum State : uint8_t { kEmpty, kFilling, kFull };

class Cached : public Source {
 public:
  Cached(SourcePtr inner, int64_t samples, std::unique_ptr<Pages> pages, bool on_heap)
      : inner_(std::move(inner)),
        each_(sample_bytes(inner_->fields())),
        samples_(samples),
        pages_(std::move(pages)),
        on_heap_(on_heap),
        states_(static_cast<size_t>(samples)) {}

  int64_t size() const override { return inner_->size(); }
  const std::vector<Field>& fields() const override { return inner_->fields(); }
  std::string name(int64_t index) const override { return inner_->name(index); }
  std::string describe() const override { return inner_->describe(); }
  int64_t memory_bytes() const override {
    return inner_->memory_bytes() + samples_ + (on_heap_ ? samples_ * each_ : 0);
  }

  int64_t reader_bytes() const override { return inner_->reader_bytes(); }

  void read(int64_t index, uint64_t draw, SampleMemory into) const override {
    if (index >= samples_) return inner_->read(index, draw, into);
    std::atomic<uint8_t>& state = states_[static_cast<size_t>(index)];
    std::byte* kept = pages_->data() + index * each_;
    if (state.load(std::memory_order_acquire) == kFull) return copy(kept, into);
    inner_->read(index, draw, into);
    uint8_t expected = kEmpty;
    if (!state.compare_exchange_strong(expected, kFilling)) return;  // another thread keeps it
    for (const auto& field : into) {
      std::memcpy(kept, field.data(), field.size());
      kept += field.size();
    }
    state.store(kFull, std::memory_order_release);
  }

 private:
  static void copy(const std::byte* from, SampleMemory into) {
    for (const auto& field : into) {
      std::memcpy(field.data(), from, field.size());
      from += field.size();
    }
  }

  SourcePtr inner_;
  int64_t each_;
  int64_t samples_;  // that there is room for
  std::unique_ptr<Pages> pages_;
  bool on_heap_;
  mutable std::vector<std::atomic<uint8_t>> states_;
};

}  // namespace

SourcePtr cache_in_memory(SourcePtr source, int64_t max_bytes) {
  const int64_t each = sample_bytes(source->fields());
  const int64_t samples = std::clamp<int64_t>(max_bytes / (each + 1), 0, source->size());
  return std::make_shared<Cached>(std::move(source), samples, std::make_unique<Pages>(samples * each), true);
}

SourcePtr cache_in_file(SourcePtr source, const std::string& folder) {
  const int64_t samples = source->size();
  const auto bytes = checked_multiply(samples, sample_bytes(source->fields()));
  if (!bytes) throw ArgumentError("a cache of all samples is more than fits in 63 bits");
  return std::make_shared<Cached>(std::move(source), samples, std::make_unique<Pages>(*bytes, folder), false);
}

}  // namespace plimsoll::train::data
