#include "plimsoll/train/data/joined.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll::train::data {
namespace {

class Joined : public Source {
 public:
  explicit Joined(std::vector<std::shared_ptr<const Source>> parts) : parts_(std::move(parts)) {
    for (const auto& part : parts_) {
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + part->size());
    }
  }

  int64_t size() const override { return ends_.back(); }
  const std::vector<Field>& fields() const override { return parts_[0]->fields(); }
  void read(int64_t index, uint64_t draw, SampleMemory into) const override {
    const size_t part = part_of(index);
    parts_[part]->read(index - first_of(part), draw, into);
  }
  std::string name(int64_t index) const override {
    const size_t part = part_of(index);
    return parts_[part]->name(index - first_of(part));
  }
  int64_t memory_bytes() const override {
    int64_t bytes = 0;
    for (const auto& part : parts_) bytes += part->memory_bytes();
    return bytes;
  }
  int64_t reader_bytes() const override {
    int64_t most = 0;
    for (const auto& part : parts_) most = std::max(most, part->reader_bytes());
    return most;
  }
  std::string describe() const override {
    return parts_.size() == 1 ? parts_[0]->describe()
                              : fmt::format("{} and {} more files", parts_[0]->describe(), parts_.size() - 1);
  }

 private:
  size_t part_of(int64_t index) const {
    return static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
  }
  int64_t first_of(size_t part) const { return part == 0 ? 0 : ends_[part - 1]; }

  std::vector<std::shared_ptr<const Source>> parts_;
  std::vector<int64_t> ends_;
};

}  // namespace

std::unique_ptr<Source> joined(std::vector<std::shared_ptr<const Source>> parts) {
  return std::make_unique<Joined>(std::move(parts));
}

}  // namespace plimsoll::train::data
