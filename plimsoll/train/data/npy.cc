#include "plimsoll/train/data/npy.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/mapped_file.h"
#include "plimsoll/train/data/rows.h"

namespace plimsoll::train::data {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::string_view kKnown = "f8, f4, f2, i1, u1, i2, i4, i8 or b1 in this machine's order of bytes";

struct Name {
  std::string_view npy;
  DType dtype;
};
constexpr Name kNames[] = {{"f8", DType::f64}, {"f4", DType::f32}, {"f2", DType::f16},
                           {"i1", DType::i8},  {"u1", DType::u8},  {"i2", DType::i16},
                           {"i4", DType::i32}, {"i8", DType::i64}, {"b1", DType::boolean}};

// The header: a Python dictionary of three entries, as NumPy writes it.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& file, int64_t offset)
      : text_(text), file_(file), offset_(offset) {}

  TensorSpec run() {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      value_of(key);
      accept(',');
    }
    if (!descr_ || !shape_ || !is_fortran_) fail("the header ends", "'descr', 'fortran_order' and 'shape'");
    if (*is_fortran_ && shape_->rank() > 1) {
      fail("an array in Fortran's order", "rows one after the other: save numpy.ascontiguousarray(x)");
    }
    return {*descr_, *shape_};
  }

 private:
  void value_of(std::string_view key) {
    if (key == "descr") {
      descr_ = dtype_of(quoted());
    } else if (key == "fortran_order") {
      is_fortran_ = boolean();
    } else if (key == "shape") {
      shape_ = tuple();
    } else {
      fail(quote(key), "'descr', 'fortran_order' or 'shape'");
    }
  }

  DType dtype_of(std::string_view descr) {
    const bool ours = descr.starts_with('<') || descr.starts_with('|') || descr.starts_with('=');
    for (const Name& name : kNames) {
      if (ours && descr.substr(1) == name.npy) return name.dtype;
    }
    fail("dtype " + quote(descr), std::string(kKnown) + ": save x.astype(numpy.float32), or int64 for indices");
  }

  Shape tuple() {
    expect('(');
    std::vector<int64_t> dims;
    while (!accept(')')) {
      dims.push_back(number());
      if (dims.size() > Shape::kMaxRank) fail("more than 8 dimensions", "8 at most");
      if (!accept(',') && peek() != ')') fail("no comma", "',' or ')'");
    }
    return Shape(std::span<const int64_t>(dims));
  }

  int64_t number() {
    skip_blanks();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0) fail("no dimension", "a number of 0 or more");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  bool boolean() {
    skip_blanks();
    for (const auto& [word, value] : {std::pair{std::string_view("True"), true}, {std::string_view("False"), false}}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return value;
    }
    fail("no truth value", "True or False");
  }

  std::string_view quoted() {
    expect('\'');
    const size_t end = text_.find('\'', at_);
    if (end == std::string_view::npos) fail("a text without an end", "a quote");
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  char peek() {
    skip_blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char wanted) {
    if (peek() != wanted || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (accept(wanted)) return;
    fail(at_ < text_.size() ? quote(text_.substr(at_, 1)) : "the end of the header", fmt::format("'{}'", wanted));
  }
  [[noreturn]] void fail(std::string_view found, std::string_view expected) const {
    throw InputError({.source = file_, .offset = offset_ + static_cast<int64_t>(at_)}, found, expected);
  }

  std::string_view text_;
  const std::string& file_;
  int64_t offset_;
  size_t at_ = 0;
  std::optional<DType> descr_;
  std::optional<Shape> shape_;
  std::optional<bool> is_fortran_;
};

// The length of the header and where it begins, by the version of the format.
struct HeaderPlace {
  size_t first = 0;
  size_t length = 0;
};

HeaderPlace header_place(std::string_view text, const std::string& file) {
  if (!text.starts_with(kMagic) || text.size() < 10) {
    throw InputError({.source = file, .offset = 0}, "no NumPy file", "'\\x93NUMPY' and a version");
  }
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(text[i])); };
  if (byte(6) == 1) return {10, byte(8) | byte(9) << 8};
  if (byte(6) > 3 || text.size() < 12) {
    throw InputError({.source = file, .offset = 6}, fmt::format("version {}", byte(6)), "1, 2 or 3");
  }
  return {12, byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24};
}

// The bytes of a spec that a file claims to have; nothing where they do not fit in 63 bits.
std::optional<int64_t> bytes_of(const TensorSpec& spec) {
  try {
    return spec.bytes();
  } catch (const ArgumentError&) {
    return std::nullopt;
  }
}

// Rows of an array, as a field.
Rows rows_of(const NpyArray& array, const std::string& name, const std::string& file, const OpenOptions& options) {
  const Shape& shape = array.spec.shape;
  if (shape.rank() == 0) throw InputError({.source = file}, "a scalar", "an array with a row for each sample");
  Rows rows{.field = {.name = name, .spec = {array.spec.dtype, Shape(shape.dims().subspan(1))}},
            .bytes = array.values,
            .count = shape[0],
            .file = file,
            .owner = array.owner,
            .owned_bytes = array.owned_bytes,
            .offset = array.offset};
  rows.stride = rows.field.spec.bytes();
  if (array.spec.dtype == DType::u8 && name == "x") normalise(rows.field, options);
  return rows;
}

const NpyArray* find_any(const std::map<std::string, NpyArray>& arrays, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto found = arrays.find(name);
    if (found != arrays.end()) return &found->second;
  }
  return nullptr;
}

}  // namespace

NpyArray parse_npy(std::span<const std::byte> bytes, const std::string& file) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto [first, length] = header_place(text, file);
  if (length > text.size() - first) {
    throw InputError({.source = file, .offset = static_cast<int64_t>(first)},
                     fmt::format("{} bytes", text.size() - first), fmt::format("a header of {}", length));
  }
  NpyArray array{.spec = HeaderParser(text.substr(first, length), file, static_cast<int64_t>(first)).run()};
  array.offset = static_cast<int64_t>(first + length);
  const auto has = static_cast<int64_t>(bytes.size()) - array.offset;
  const auto needs = bytes_of(array.spec);
  if (!needs || *needs > has) {
    throw InputError(
        {.source = file, .offset = array.offset}, fmt::format("{} bytes of data", has),
        fmt::format("{} for {}: the file is cut short", needs ? fmt::format("{}", *needs) : "more", array.spec.text()));
  }
  array.values = bytes.subspan(first + length, static_cast<size_t>(*needs));
  return array;
}

std::unique_ptr<Source> open_npy(const std::string& x, const std::string& y, const OpenOptions& options) {
  std::vector<Rows> columns;
  for (const auto& [path, name] : {std::pair{x, std::string("x")}, std::pair{y, std::string("target")}}) {
    if (path.empty()) continue;
    const auto mapped = std::make_shared<const MappedFile>(path);
    columns.push_back(rows_of(parse_npy(mapped->bytes(), path), name, path, options));
    columns.back().owner = mapped;
  }
  return rows_source(std::move(columns), checks_of(options));
}

std::unique_ptr<Source> open_npz(const std::string& path, const OpenOptions& options) {
  const auto mapped = std::make_shared<const MappedFile>(path);
  const auto arrays = parse_npz(mapped->bytes(), path);
  const NpyArray* x = find_any(arrays, {"x", "X", "images", "data", "x_train", "arr_0"});
  const NpyArray* y = find_any(arrays, {"y", "target", "labels", "Y", "y_train", "arr_1"});
  if (x == nullptr) {
    std::string names;
    for (const auto& [name, array] : arrays) names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
    throw InputError({.source = path}, "the arrays " + names, "one named x (and y, target or labels for labels)");
  }
  std::vector<Rows> columns = {rows_of(*x, "x", path, options)};
  if (y != nullptr) columns.push_back(rows_of(*y, "target", path, options));
  for (Rows& rows : columns) {
    if (rows.owner == nullptr) rows.owner = mapped;
  }
  return rows_source(std::move(columns), checks_of(options));
}

}  // namespace plimsoll::train::data
