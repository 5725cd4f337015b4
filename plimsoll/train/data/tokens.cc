#include <fmt/format.h>

#include <cstring>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/mapped_file.h"
#include "plimsoll/train/data/formats.h"
#include "plimsoll/train/data/rows.h"

namespace plimsoll::train::data {
namespace {

// Widens tokens; the largest of them.
template <class T>
int64_t widen(const std::byte* from, std::span<std::byte> into) {
  T largest = 0;
  const size_t count = into.size() / sizeof(int64_t);
  auto* to = reinterpret_cast<int64_t*>(into.data());
  for (size_t i = 0; i < count; ++i) {
    T token;
    std::memcpy(&token, from + i * sizeof(T), sizeof(T));
    to[i] = token;
    largest = token > largest ? token : largest;
  }
  return largest;
}

class Tokens : public Source {
 public:
  Tokens(const std::string& path, int width, const OpenOptions& options)
      : file_(path), width_(width), sequence_(options.sequence), vocabulary_(options.vocabulary) {
    const auto bytes = static_cast<int64_t>(file_.bytes().size());
    if (sequence_ < 1) throw ArgumentError(fmt::format("{} holds tokens: expected the length of a sequence", path));
    if (bytes % width != 0) {
      throw InputError({.source = path, .offset = bytes - bytes % width}, fmt::format("{} bytes", bytes),
                       fmt::format("tokens of {} bytes each: is it u{}?", width, width == 2 ? 32 : 16));
    }
    count_ = bytes / width > 0 ? (bytes / width - 1) / sequence_ : 0;
    if (count_ == 0) {
      throw InputError(
          {.source = path}, fmt::format("{} tokens", bytes / width),
          fmt::format("{} at least, for a sequence of {} and the token after it", sequence_ + 1, sequence_));
    }
    const TensorSpec spec{DType::i64, {sequence_}};
    fields_ = {{.name = "tokens", .spec = spec}, {.name = "target", .spec = spec}};
  }

  int64_t size() const override { return count_; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string name(int64_t index) const override {
    return fmt::format("{}, token {}", file_.path(), index * sequence_);
  }
  int64_t memory_bytes() const override { return 0; }
  std::string describe() const override { return describe_samples(*this) + " from " + file_.path(); }

  void read(int64_t index, uint64_t /*draw*/, SampleMemory into) const override {
    const int64_t at = index * sequence_ * width_;
    const std::byte* from = file_.bytes().data() + at;
    int64_t largest = 0;
    for (size_t i = 0; i < 2; ++i, from += width_) {
      largest = std::max(largest, width_ == 1   ? widen<uint8_t>(from, into[i])
                                  : width_ == 2 ? widen<uint16_t>(from, into[i])
                                                : widen<uint32_t>(from, into[i]));
    }
    if (vocabulary_ > 0 && largest >= vocabulary_) {
      throw DataError({.source = file_.path(), .offset = at},
                      fmt::format("token {} in the sequence here, expected 0 to {}: another tokenizer, or not u{}?",
                                  largest, vocabulary_ - 1, 8 * width_));
    }
  }

 private:
  MappedFile file_;
  int width_;
  int64_t sequence_;
  int64_t vocabulary_;
  int64_t count_ = 0;
  std::vector<Field> fields_;
};

}  // namespace

std::unique_ptr<Source> open_tokens(const std::string& path, int width, const OpenOptions& options) {
  return std::make_unique<Tokens>(path, width, options);
}

}  // namespace plimsoll::train::data
