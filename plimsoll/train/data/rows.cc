#include "plimsoll/train/data/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "plimsoll/base/bytes.h"

namespace plimsoll::train::data {
namespace {

// Exponents of only ones are NaN and infinity.
template <class Bits, Bits kExponent>
bool finite_bits(std::span<const std::byte> values) {
  const std::byte* at = values.data();
  unsigned found = 0;
  for (size_t i = 0; i < values.size() / sizeof(Bits); ++i) {
    Bits bits;
    std::memcpy(&bits, at + i * sizeof(Bits), sizeof(Bits));
    found |= static_cast<unsigned>((bits & kExponent) == kExponent);
  }
  return found == 0;
}

template <class T>
std::optional<int64_t> first_outside(std::span<const std::byte> values, int64_t range) {
  for (size_t i = 0; i < values.size() / sizeof(T); ++i) {
    T value;
    std::memcpy(&value, values.data() + i * sizeof(T), sizeof(T));
    const auto wide = static_cast<int64_t>(value);
    if (wide < 0 || wide >= range) return wide;
  }
  return std::nullopt;
}

class RowsSource : public Source {
 public:
  RowsSource(std::vector<Rows> columns, const RowChecks& checks) : columns_(std::move(columns)), checks_(checks) {
    for (const Rows& rows : columns_) {
      if (rows.count != columns_[0].count) {
        throw InputError({.source = rows.file},
                         fmt::format("{} rows, but {} has {}: expected one {} for each sample", rows.count,
                                     columns_[0].file, columns_[0].count, rows.field.name));
      }
      fields_.push_back(rows.field);
      sizes_.push_back(rows.field.spec.bytes());
    }
  }

  int64_t size() const override { return columns_.empty() ? 0 : columns_[0].count; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string name(int64_t index) const override { return fmt::format("{}, row {}", columns_[0].file, index); }
  std::string describe() const override { return describe_samples(*this) + " from " + columns_[0].file; }

  int64_t memory_bytes() const override {
    int64_t bytes = 0;
    for (const Rows& rows : columns_) bytes += rows.owned_bytes;
    return bytes;
  }

  void read(int64_t index, uint64_t /*draw*/, SampleMemory into) const override {
    for (size_t i = 0; i < columns_.size(); ++i) {
      const auto from = static_cast<size_t>(index * columns_[i].stride);
      std::memcpy(into[i].data(), columns_[i].bytes.data() + from, static_cast<size_t>(sizes_[i]));
      check(columns_[i], index, into[i]);
    }
  }

 private:
  void check(const Rows& rows, int64_t index, std::span<const std::byte> values) const {
    const DType dtype = rows.field.spec.dtype;
    if (checks_.finite && is_floating(dtype) && !all_finite(dtype, values)) {
      fail(rows, index, fmt::format("{} of row {} has a NaN or an infinity", rows.field.name, index));
    }
    const int64_t range = range_of(rows.field);
    if (range == 0) return;
    if (const auto value = out_of_range(dtype, values, range)) {
      fail(rows, index, fmt::format("{} of row {} is {}, expected 0 to {}", rows.field.name, index, *value, range - 1));
    }
  }

  int64_t range_of(const Field& field) const {
    if (!is_integer(field.spec.dtype)) return 0;
    if (field.name == "target") return checks_.classes;
    return field.name == "tokens" ? checks_.vocabulary : 0;
  }

  [[noreturn]] static void fail(const Rows& rows, int64_t index, const std::string& message) {
    throw DataError({.source = rows.file, .offset = rows.offset + index * rows.stride}, message);
  }

  std::vector<Rows> columns_;
  RowChecks checks_;
  std::vector<Field> fields_;
  std::vector<int64_t> sizes_;
};

void check_count(const std::vector<float>& of, const char* name, size_t channels) {
  if (of.empty() || of.size() == 1 || of.size() == channels) return;
  throw ArgumentError(fmt::format("{} {} for {} channels: expected one, or one for each", of.size(), name, channels));
}

float nth(const std::vector<float>& of, size_t i, float otherwise) {
  return of.empty() ? otherwise : of[of.size() == 1 ? 0 : i];
}

}  // namespace

std::unique_ptr<Source> rows_source(std::vector<Rows> columns, const RowChecks& checks) {
  return std::make_unique<RowsSource>(std::move(columns), checks);
}

RowChecks checks_of(const OpenOptions& options) {
  return {.classes = options.classes, .vocabulary = options.vocabulary, .finite = options.check_finite};
}

void normalise(Field& field, const OpenOptions& options) {
  const size_t channels = field.spec.shape.rank() == 3 ? static_cast<size_t>(field.spec.shape[0]) : 1;
  check_count(options.mean, "means", channels);
  check_count(options.std, "standard deviations", channels);
  const bool by_channel = options.mean.size() > 1 || options.std.size() > 1;
  for (size_t i = 0; i < (by_channel ? channels : 1); ++i) {
    const float spread = nth(options.std, i, 1.0F);
    if (!(spread > 0)) throw ArgumentError(fmt::format("a standard deviation of {}: expected more than 0", spread));
    field.scale.push_back(1.0F / (255.0F * spread));
    field.offset.push_back(-nth(options.mean, i, 0.0F) / spread);
  }
}

std::string describe_samples(const Source& source) {
  std::string specs;
  for (const Field& field : source.fields()) {
    specs += fmt::format("{}{}", specs.empty() ? "" : " and ", field.spec.text());
  }
  return fmt::format("{} samples of {}", format_count(source.size()), specs);
}

bool all_finite(DType dtype, std::span<const std::byte> values) {
  switch (dtype) {
    case DType::f64:
      return finite_bits<uint64_t, 0x7FF0000000000000U>(values);
    case DType::f32:
      return finite_bits<uint32_t, 0x7F800000U>(values);
    case DType::f16:
      return finite_bits<uint16_t, 0x7C00U>(values);
    case DType::bf16:
      return finite_bits<uint16_t, 0x7F80U>(values);
    default:
      return true;
  }
}

std::optional<int64_t> out_of_range(DType dtype, std::span<const std::byte> values, int64_t range) {
  switch (dtype) {
    case DType::i8:
      return first_outside<int8_t>(values, range);
    case DType::u8:
      return first_outside<uint8_t>(values, range);
    case DType::i16:
      return first_outside<int16_t>(values, range);
    case DType::i32:
      return first_outside<int32_t>(values, range);
    case DType::i64:
      return first_outside<int64_t>(values, range);
    default:
      return std::nullopt;
  }
}

}  // namespace plimsoll::train::data
