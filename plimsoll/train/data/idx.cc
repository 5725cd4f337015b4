#include <fmt/format.h>

#include "plimsoll/base/gzip.h"
#include "plimsoll/base/mapped_file.h"
#include "plimsoll/train/data/formats.h"
#include "plimsoll/train/data/rows.h"

namespace plimsoll::train::data {
namespace {

int64_t big_endian(std::span<const std::byte> bytes) {
  int64_t value = 0;
  for (const std::byte byte : bytes.first(4)) value = value << 8 | std::to_integer<int64_t>(byte);
  return value;
}

DType idx_dtype(std::span<const std::byte> bytes, const std::string& file) {
  const int type = std::to_integer<int>(bytes[2]);
  if (bytes[0] != std::byte{0} || bytes[1] != std::byte{0}) {
    throw InputError({.source = file, .offset = 0}, "no IDX file", "two bytes of 0, a type and a rank");
  }
  if (type == 0x08) return DType::u8;
  if (type == 0x09) return DType::i8;
  throw InputError({.source = file, .offset = 2}, fmt::format("IDX type 0x{:02x}", type),
                   "0x08 (unsigned bytes) or 0x09 (bytes): save others as .npy");
}

// The bytes of a file, inflated where they are gzip.
struct Content {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  int64_t owned_bytes = 0;
};

Content read_content(const std::string& path) {
  const auto mapped = std::make_shared<const MappedFile>(path);
  const std::string_view text(reinterpret_cast<const char*>(mapped->bytes().data()), mapped->bytes().size());
  if (!is_gzip(text)) return {mapped->bytes(), mapped};
  Inflated inflated = gunzip(text);
  if (inflated.fault) throw InputError({.source = path, .offset = inflated.fault->offset}, inflated.fault->message);
  inflated.bytes.shrink_to_fit();
  const auto bytes = std::make_shared<const std::string>(std::move(inflated.bytes));
  return {std::as_bytes(std::span(*bytes)), bytes, static_cast<int64_t>(bytes->size())};
}

Rows idx_rows(const std::string& path, const std::string& name) {
  const Content content = read_content(path);
  const IdxArray array = parse_idx(content.bytes, path);
  const Shape& shape = array.spec.shape;
  Shape sample(shape.dims().subspan(1));
  if (sample.rank() == 2) sample = {1, sample[0], sample[1]};
  Rows rows{.field = {.name = name, .spec = {array.spec.dtype, sample}},
            .bytes = array.values,
            .count = shape[0],
            .file = path,
            .owner = content.owner,
            .owned_bytes = content.owned_bytes,
            .offset = array.values.data() - content.bytes.data()};
  rows.stride = rows.field.spec.bytes();
  return rows;
}

}  // namespace

IdxArray parse_idx(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.size() < 4) throw InputError({.source = file, .offset = 0}, "fewer than 4 bytes", "an IDX file");
  const DType dtype = idx_dtype(bytes, file);
  const auto rank = std::to_integer<size_t>(bytes[3]);
  if (rank < 1 || rank > 4 || bytes.size() < 4 + 4 * rank) {
    throw InputError({.source = file, .offset = 3}, fmt::format("rank {} in {} bytes", rank, bytes.size()),
                     "1 to 4 dimensions, of 4 bytes each");
  }
  std::vector<int64_t> dims;
  int64_t elements = 1;
  const auto has = static_cast<int64_t>(bytes.size() - 4 - 4 * rank);
  for (size_t i = 0; i < rank; ++i) {
    dims.push_back(big_endian(bytes.subspan(4 + 4 * i)));
    if (dims.back() != 0 && elements > INT64_MAX / dims.back()) elements = INT64_MAX;  // and stays too large
    elements = elements == INT64_MAX ? elements : elements * dims.back();
  }
  if (elements > has) {
    throw InputError(
        {.source = file, .offset = static_cast<int64_t>(4 + 4 * rank)}, fmt::format("{} bytes of data", has),
        fmt::format("{} for {}: the file is cut short", elements, Shape(std::span<const int64_t>(dims)).text()));
  }
  return {{dtype, Shape(std::span<const int64_t>(dims))}, bytes.subspan(4 + 4 * rank, static_cast<size_t>(elements))};
}

std::unique_ptr<Source> open_idx(const std::string& images, const std::string& labels, const OpenOptions& options) {
  std::vector<Rows> columns = {idx_rows(images, "x"), idx_rows(labels, "target")};
  if (columns[1].field.spec.shape.rank() != 0) {
    throw InputError({.source = labels}, "samples of " + columns[1].field.spec.text(), "one byte for each label");
  }
  normalise(columns[0].field, options);
  return rows_source(std::move(columns), checks_of(options));
}

}  // namespace plimsoll::train::data
