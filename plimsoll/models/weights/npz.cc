#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstring>

#include "plimsoll/base/error.h"
#include "plimsoll/models/weights/archives.h"
#include "plimsoll/models/weights/zip.h"

namespace plimsoll::models {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct NumpyType {
  std::string_view numpy, stored;
  int64_t bytes;
};
constexpr std::array kNumpyTypes = {
    NumpyType{"<f8", "F64", 8}, NumpyType{"<f4", "F32", 4}, NumpyType{"<f2", "F16", 2},
    NumpyType{"<i8", "I64", 8}, NumpyType{"<i4", "I32", 4}, NumpyType{"<i2", "I16", 2},
    NumpyType{"|i1", "I8", 1},  NumpyType{"|u1", "U8", 1},  NumpyType{"|b1", "BOOL", 1}};

// The header of one array: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class ArrayReader {
 public:
  ArrayReader(std::string path, std::string name, std::span<const std::byte> bytes)
      : path_(std::move(path)), name_(std::move(name)), bytes_(bytes) {}

  StoredTensor read() {
    StoredTensor tensor;
    tensor.name = name_;
    const std::string_view header = take_header();
    const NumpyType& type = find_type(quoted_after(header, "'descr'"));
    tensor.dtype = type.stored;
    tensor.shape = shape_after(header, "'shape'");
    if (after(header, "'fortran_order'").starts_with("True") && tensor.shape.rank() > 1) {
      throw UnsupportedError(
          fmt::format("{}: {} is stored by columns; write np.ascontiguousarray of it", path_, quote(name_)));
    }
    const auto size = static_cast<int64_t>(bytes_.size());
    if (size % type.bytes != 0 || elements(tensor.shape) != size / type.bytes) {
      fail(fmt::format("{} bytes do not make {}{}", size, type.stored, tensor.shape.text()));
    }
    tensor.bytes = bytes_;
    return tensor;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw InputError({.source = path_}, fmt::format("array {}: {}", quote(name_), what));
  }

  // Leaves the elements in bytes_.
  std::string_view take_header() {
    const std::string_view all(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
    if (!all.starts_with(kMagic) || all.size() < 12) fail("it is no array of numpy");
    const bool wide = all[6] != 1;
    uint32_t length = 0;
    std::memcpy(&length, all.data() + 8, wide ? 4 : 2);
    const size_t start = wide ? 12 : 10;
    if (length > all.size() - start) fail("its header is cut short");
    bytes_ = bytes_.subspan(start + length);
    return all.substr(start, length);
  }

  std::string_view after(std::string_view header, std::string_view key) const {
    const size_t found = header.find(key);
    if (found == std::string_view::npos) fail(fmt::format("its header has no {}", key));
    std::string_view rest = header.substr(found + key.size());
    rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(": ")));
    return rest;
  }

  std::string_view quoted_after(std::string_view header, std::string_view key) const {
    const std::string_view rest = after(header, key);
    const size_t end = rest.find('\'', 1);
    if (!rest.starts_with('\'') || end == std::string_view::npos) fail(fmt::format("{} is no text", key));
    return rest.substr(1, end - 1);
  }

  const NumpyType& find_type(std::string_view descr) const {
    for (const NumpyType& type : kNumpyTypes) {
      if (type.numpy == descr) return type;
    }
    throw UnsupportedError(fmt::format("{}: array {} has elements of {}, expected <f8, <f4, <f2 or integers", path_,
                                       quote(name_), quote(descr)));
  }

  Shape shape_after(std::string_view header, std::string_view key) const {
    std::string_view rest = after(header, key);
    std::vector<int64_t> dims;
    if (!rest.starts_with('(')) fail("its shape is no tuple");
    rest.remove_prefix(1);
    while (!rest.starts_with(')')) {
      int64_t dim = 0;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), dim);
      if (error != std::errc() || dim < 0 || dims.size() == Shape::kMaxRank) fail("its shape is not of a few numbers");
      dims.push_back(dim);
      rest.remove_prefix(static_cast<size_t>(end - rest.data()));
      rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(", ")));
    }
    return Shape(dims);
  }

  int64_t elements(const Shape& shape) const {
    try {
      return shape.elements();
    } catch (const ArgumentError& error) {
      fail(error.what());
    }
  }

  std::string path_;
  std::string name_;
  std::span<const std::byte> bytes_;
};

}  // namespace

StoredTensors read_npz(const std::string& path) {
  constexpr std::string_view kEnding = ".npy";
  const auto file = std::make_shared<const MappedFile>(path);
  StoredTensors tensors;
  for (const auto& [entry_name, entry] : read_zip(*file)) {
    const bool is_array = entry_name.ends_with(kEnding);
    const std::string name = is_array ? entry_name.substr(0, entry_name.size() - kEnding.size()) : entry_name;
    std::shared_ptr<const std::vector<std::byte>> inflated;
    if (entry.deflated) inflated = inflate_entry(path, entry_name, entry);
    StoredTensor tensor = ArrayReader(path, name, inflated ? std::span(*inflated) : entry.bytes).read();
    tensor.file = file;
    tensor.inflated = inflated;
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

}  // namespace plimsoll::models
