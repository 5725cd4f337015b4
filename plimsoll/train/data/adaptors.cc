#include "plimsoll/train/data/adaptors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "plimsoll/train/data/order.h"
#include "plimsoll/train/data/rows.h"

namespace plimsoll::train::data {
namespace {

// A source around another one: all as it is, until something is overridden.
class Around : public Source {
 public:
  explicit Around(SourcePtr inner) : inner_(std::move(inner)) {}

  int64_t size() const override { return inner_->size(); }
  const std::vector<Field>& fields() const override { return inner_->fields(); }
  void read(int64_t index, uint64_t draw, SampleMemory into) const override { inner_->read(at(index), draw, into); }
  std::string name(int64_t index) const override { return inner_->name(at(index)); }
  int64_t memory_bytes() const override { return inner_->memory_bytes(); }
  int64_t reader_bytes() const override { return inner_->reader_bytes(); }
  std::string describe() const override { return inner_->describe(); }

 protected:
  virtual int64_t at(int64_t index) const { return index; }  // in the inner source

  SourcePtr inner_;
};

class Callback : public Source {
 public:
  Callback(int64_t size, std::vector<Field> fields, std::function<void(int64_t, uint64_t, SampleMemory)> read)
      : size_(size), fields_(std::move(fields)), read_(std::move(read)) {}

  int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(int64_t index, uint64_t draw, SampleMemory into) const override { read_(index, draw, into); }
  std::string name(int64_t index) const override { return fmt::format("sample {} of a function", index); }
  int64_t memory_bytes() const override { return 0; }
  std::string describe() const override { return describe_samples(*this) + " from a function"; }

 private:
  int64_t size_;
  std::vector<Field> fields_;
  std::function<void(int64_t, uint64_t, SampleMemory)> read_;
};

class Mapped : public Around {
 public:
  Mapped(SourcePtr inner, std::function<void(uint64_t, SampleMemory)> change)
      : Around(std::move(inner)), change_(std::move(change)) {}

  void read(int64_t index, uint64_t draw, SampleMemory into) const override {
    inner_->read(index, draw, into);
    change_(draw, into);
  }

 private:
  std::function<void(uint64_t, SampleMemory)> change_;
};

class Part : public Around {
 public:
  Part(SourcePtr inner, int64_t first, int64_t size) : Around(std::move(inner)), first_(first), size_(size) {}
  int64_t size() const override { return size_; }

 private:
  int64_t at(int64_t index) const override { return first_ + index; }
  int64_t first_;
  int64_t size_;
};

class Repeated : public Around {
 public:
  Repeated(SourcePtr inner, int64_t times) : Around(std::move(inner)), times_(times) {}
  int64_t size() const override { return inner_->size() * times_; }

 private:
  int64_t at(int64_t index) const override { return index % inner_->size(); }
  int64_t times_;
};

class ByLength : public Around {
 public:
  ByLength(SourcePtr inner, const std::function<int64_t(int64_t)>& length) : Around(std::move(inner)) {
    if (inner_->size() > UINT32_MAX) throw ArgumentError("more than 2^32 samples cannot be ordered by length");
    std::vector<int64_t> lengths(static_cast<size_t>(inner_->size()));
    for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = length(static_cast<int64_t>(i));
    order_.resize(lengths.size());
    std::iota(order_.begin(), order_.end(), 0U);
    std::stable_sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) { return lengths[a] < lengths[b]; });
  }
  int64_t memory_bytes() const override {
    return inner_->memory_bytes() + static_cast<int64_t>(order_.size() * sizeof(uint32_t));
  }

 private:
  int64_t at(int64_t index) const override { return order_[static_cast<size_t>(index)]; }
  std::vector<uint32_t> order_;
};

// An image moved by (down, right) pixels, zeros where it was not; columns the other way round where `flip`.
void move_image(std::span<std::byte> image, const TensorSpec& spec, int64_t down, int64_t right, bool flip) {
  const int64_t height = spec.shape[1];
  const int64_t width = spec.shape[2];
  const int64_t bytes = element_bytes(spec.dtype);
  const std::vector<std::byte> before(image.begin(), image.end());
  std::fill(image.begin(), image.end(), std::byte{0});
  const int64_t first = std::max<int64_t>(0, right);  // columns that have a pixel of the image
  const int64_t end = std::min(width, width + right);
  for (int64_t line = 0; line < spec.shape[0] * height; ++line) {
    const int64_t y = line % height - down;
    if (y < 0 || y >= height || first >= end) continue;
    const std::byte* from = before.data() + (line - down) * width * bytes;
    std::byte* to = image.data() + line * width * bytes;
    if (!flip) {
      std::memcpy(to + first * bytes, from + (first - right) * bytes, static_cast<size_t>((end - first) * bytes));
      continue;
    }
    for (int64_t x = first; x < end; ++x) {
      std::memcpy(to + x * bytes, from + (width - 1 - (x - right)) * bytes, static_cast<size_t>(bytes));
    }
  }
}

}  // namespace

SourcePtr arrays(std::vector<Array> arrays) {
  std::vector<Rows> columns;
  for (Array& array : arrays) {
    const int64_t each = array.field.spec.bytes();
    if (each < 1 || static_cast<int64_t>(array.bytes.size()) % each != 0) {
      throw ArgumentError(fmt::format("the array for {} has {} bytes, expected whole samples of {}", array.field.name,
                                      array.bytes.size(), each));
    }
    const int64_t count = static_cast<int64_t>(array.bytes.size()) / each;
    if (!columns.empty() && count != columns[0].count) {
      throw ArgumentError(fmt::format("the array for {} has {} samples, that for {} has {}", array.field.name, count,
                                      columns[0].field.name, columns[0].count));
    }
    const std::string name = "the array for " + array.field.name;
    columns.push_back(
        {.field = std::move(array.field), .bytes = array.bytes, .stride = each, .count = count, .file = name});
  }
  return rows_source(std::move(columns), {});
}

SourcePtr callback(int64_t size, std::vector<Field> fields, std::function<void(int64_t, uint64_t, SampleMemory)> read) {
  return std::make_shared<Callback>(size, std::move(fields), std::move(read));
}

SourcePtr padded(std::string name, Sequences sequences) {
  if (sequences.length < 1) throw ArgumentError("sequences are padded to 1 or more elements");
  const Field field{.name = std::move(name), .spec = {DType::i64, {sequences.length}}};
  const auto read = [sequences](int64_t index, uint64_t /*draw*/, SampleMemory into) {
    const std::span values(reinterpret_cast<int64_t*>(into[0].data()), static_cast<size_t>(sequences.length));
    const int64_t written = std::clamp<int64_t>(sequences.read(index, values), 0, sequences.length);
    std::fill(values.begin() + written, values.end(), sequences.pad);
  };
  return callback(sequences.size, {field}, read);
}

SourcePtr by_length(SourcePtr source, const std::function<int64_t(int64_t index)>& length) {
  return std::make_shared<ByLength>(std::move(source), length);
}

SourcePtr map(SourcePtr source, std::function<void(uint64_t draw, SampleMemory sample)> change) {
  return std::make_shared<Mapped>(std::move(source), std::move(change));
}

SourcePtr augment(SourcePtr source, const Augment& augment) {
  const std::vector<Field> fields = source->fields();
  const auto reach = static_cast<uint64_t>(augment.crop_padding);
  return map(std::move(source), [fields, reach, flips = augment.flip](uint64_t draw, SampleMemory sample) {
    const auto down = static_cast<int64_t>(mix(draw, 1) % (2 * reach + 1)) - static_cast<int64_t>(reach);
    const auto right = static_cast<int64_t>(mix(draw, 2) % (2 * reach + 1)) - static_cast<int64_t>(reach);
    const bool flip = flips && mix(draw, 3) % 2 == 1;
    if (down == 0 && right == 0 && !flip) return;
    for (size_t i = 0; i < fields.size(); ++i) {
      if (fields[i].spec.shape.rank() == 3) move_image(sample[i], fields[i].spec, down, right, flip);
    }
  });
}

SourcePtr take(SourcePtr source, int64_t samples) {
  const int64_t size = std::clamp<int64_t>(samples, 0, source->size());
  return std::make_shared<Part>(std::move(source), 0, size);
}

SourcePtr skip(SourcePtr source, int64_t samples) {
  const int64_t first = std::clamp<int64_t>(samples, 0, source->size());
  const int64_t size = source->size() - first;
  return std::make_shared<Part>(std::move(source), first, size);
}

SourcePtr repeat(SourcePtr source, int64_t times) {
  if (times < 1 || source->size() > INT64_MAX / times) {
    throw ArgumentError(
        fmt::format("{} samples repeated {} times: expected 1 or more, and a count of 63 bits", source->size(), times));
  }
  return std::make_shared<Repeated>(std::move(source), times);
}

}  // namespace plimsoll::train::data
