// A text whose lines are samples: sequences of bytes, of different lengths.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "plimsoll/base/mapped_file.h"
#include "plimsoll/train/data/formats.h"
#include "plimsoll/train/data/rows.h"

namespace plimsoll::train::data {
namespace {

constexpr int64_t kIgnored = -100;  // as a target
constexpr int64_t kLineEnd = '\n';

class Lines : public Source {
 public:
  Lines(const std::string& path, const OpenOptions& options)
      : file_(path),
        text_(reinterpret_cast<const char*>(file_.bytes().data()), file_.bytes().size()),
        sequence_(options.sequence),
        vocabulary_(options.vocabulary) {
    if (sequence_ < 1) throw ArgumentError(fmt::format("{} holds text: expected the length of a sequence", path));
    for (size_t at = 0; at < text_.size(); at = end_of(at) + 1) {
      if (!line_at(at).empty()) starts_.push_back(static_cast<int64_t>(at));
    }
    starts_.shrink_to_fit();
    if (starts_.empty()) throw InputError({.source = path}, "no lines", "a line of text for each sample");
    const TensorSpec spec{DType::i64, {sequence_}};
    fields_ = {{.name = "tokens", .spec = spec}, {.name = "target", .spec = spec}};
  }

  int64_t size() const override { return static_cast<int64_t>(starts_.size()); }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string name(int64_t index) const override { return place_of(index).text(); }
  int64_t memory_bytes() const override { return static_cast<int64_t>(starts_.capacity() * sizeof(int64_t)); }
  std::string describe() const override { return describe_samples(*this) + " from lines of " + file_.path(); }

  // The line and its end as bytes; each token's target is the next one. What is longer than the sequence is cut.
  void read(int64_t index, uint64_t /*draw*/, SampleMemory into) const override {
    const std::string_view line = line_at(static_cast<size_t>(starts_[static_cast<size_t>(index)]));
    auto* tokens = reinterpret_cast<int64_t*>(into[0].data());
    auto* targets = reinterpret_cast<int64_t*>(into[1].data());
    const auto byte_at = [&](int64_t i) {
      return static_cast<int64_t>(static_cast<unsigned char>(line[static_cast<size_t>(i)]));
    };
    const auto bytes = static_cast<int64_t>(line.size());
    const int64_t count = std::min(sequence_, bytes);
    for (int64_t i = 0; i < count; ++i) {
      tokens[i] = byte_at(i);
      targets[i] = i + 1 < bytes ? byte_at(i + 1) : kLineEnd;
    }
    std::fill(tokens + count, tokens + sequence_, kLineEnd);
    std::fill(targets + count, targets + sequence_, kIgnored);
    const int64_t largest = std::max(*std::max_element(tokens, tokens + count), targets[count - 1]);
    if (vocabulary_ > 0 && std::max(largest, kLineEnd) >= vocabulary_) {
      throw DataError(place_of(index), fmt::format("byte {} in the line, expected 0 to {}", largest, vocabulary_ - 1));
    }
  }

 private:
  size_t end_of(size_t at) const { return std::min(text_.find('\n', at), text_.size()); }
  std::string_view line_at(size_t at) const {
    std::string_view line = text_.substr(at, end_of(at) - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }
  // Lines are counted only where a message needs them.
  Place place_of(int64_t index) const {
    const std::string_view before = text_.substr(0, static_cast<size_t>(starts_[static_cast<size_t>(index)]));
    return {.source = file_.path(), .line = 1 + std::count(before.begin(), before.end(), '\n')};
  }

  MappedFile file_;
  std::string_view text_;
  int64_t sequence_;
  int64_t vocabulary_;
  std::vector<int64_t> starts_;  // of lines that are not empty
  std::vector<Field> fields_;
};

}  // namespace

std::unique_ptr<Source> open_lines(const std::string& path, const OpenOptions& options) {
  return std::make_unique<Lines>(path, options);
}

}  // namespace plimsoll::train::data
