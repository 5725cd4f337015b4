#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>

#include "plimsoll/base/mapped_file.h"
#include "plimsoll/train/data/formats.h"
#include "plimsoll/train/data/rows.h"

namespace plimsoll::train::data {
namespace {

constexpr int64_t kStride = 16;      // lines between those whose place is kept
constexpr int64_t kLookedAt = 1000;  // labels, to tell integers
constexpr size_t kMostColumns = 1 << 20;

// One line after the other, without their ends. Empty lines are passed over.
class Lines {
 public:
  Lines(std::string_view text, size_t at) : text_(text), at_(at) {}

  std::optional<std::string_view> next() {
    while (at_ < text_.size()) {
      start_ = at_;
      const size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view line = text_.substr(at_, end - at_);
      at_ = end + 1;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.find_first_not_of(" \t") != std::string_view::npos) return line;
    }
    return std::nullopt;
  }
  size_t start() const { return start_; }  // of the line that came last

 private:
  std::string_view text_;
  size_t at_;
  size_t start_ = 0;
};

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// The cells of a line. A quoted cell may hold commas, no quotes and no line ends.
class Cells {
 public:
  explicit Cells(std::string_view line) : line_(line) {}

  std::optional<std::string_view> next() {
    if (at_ > line_.size()) return std::nullopt;
    start_ = at_;
    size_t end = std::min(line_.find(',', at_), line_.size());
    const size_t quote = line_.find_first_not_of(" \t", at_);
    if (quote != std::string_view::npos && line_[quote] == '"') {
      const size_t closing = line_.find('"', quote + 1);
      if (closing != std::string_view::npos) {
        end = std::min(line_.find(',', closing), line_.size());
        at_ = end + 1;
        return line_.substr(quote + 1, closing - quote - 1);
      }
    }
    at_ = end + 1;
    return trimmed(line_.substr(start_, end - start_));
  }
  int64_t column() const { return static_cast<int64_t>(start_) + 1; }  // of the cell that came last

 private:
  std::string_view line_;
  size_t at_ = 0;
  size_t start_ = 0;
};

std::optional<double> number_of(std::string_view cell) {
  if (cell.starts_with('+')) cell.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size()) return std::nullopt;
  return value;
}

bool is_label(double value) { return std::abs(value) <= 0x1p53 && value == std::floor(value); }

class Csv : public Source {
 public:
  Csv(std::string_view text, const std::string& file, std::shared_ptr<const void> owner, const OpenOptions& options)
      : text_(text), file_(file), owner_(std::move(owner)), options_(options) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);  // a byte order mark
    read_header();
    index_lines();
    const TensorSpec x{DType::f32, {columns_ - 1}};
    fields_ = {{.name = "x", .spec = x},
               {.name = "target", .spec = {labels_are_integers() ? DType::i64 : DType::f32, {}}}};
  }

  int64_t size() const override { return count_; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string name(int64_t index) const override { return place_of(line_of(index).second).text(); }
  int64_t memory_bytes() const override { return static_cast<int64_t>(places_.capacity() * sizeof(int64_t)); }
  std::string describe() const override { return describe_samples(*this) + " from " + file_; }

  void read(int64_t index, uint64_t /*draw*/, SampleMemory into) const override {
    const auto [line, start] = line_of(index);
    Cells cells(line);
    auto* x = reinterpret_cast<float*>(into[0].data());
    int64_t column = 0;
    for (auto cell = cells.next(); cell; cell = cells.next(), ++column) {
      if (column == columns_) fail_columns(start, "more columns");
      const double value = checked_number(*cell, start, cells.column());
      if (column == label_) {
        write_label(value, start, cells.column(), into[1]);
      } else {
        *x++ = static_cast<float>(value);
      }
    }
    if (column < columns_) fail_columns(start, fmt::format("{} columns", column));
  }

 private:
  void read_header() {
    Lines lines(text_, 0);
    const auto line = lines.next();
    if (!line) throw InputError({.source = file_}, "no lines", "a line of numbers for each sample");
    Cells cells(*line);
    std::vector<std::string_view> names;
    for (auto cell = cells.next(); cell; cell = cells.next()) {
      names.push_back(*cell);
      has_header_ = has_header_ || (!cell->empty() && !number_of(*cell));  // an empty cell is no name
      if (names.size() > kMostColumns) throw InputError({.source = file_, .line = 1}, "more than 2^20 columns");
    }
    columns_ = static_cast<int64_t>(names.size());
    if (columns_ < 2) throw InputError({.source = file_, .line = 1}, "one column", "values and a label");
    label_ = label_among(names);
  }

  int64_t label_among(const std::vector<std::string_view>& names) const {
    const std::string& wanted = options_.label_column;
    if (wanted.empty()) return columns_ - 1;
    if (has_header_) {
      const auto found = std::find(names.begin(), names.end(), wanted);
      if (found != names.end()) return found - names.begin();
    }
    const auto number = number_of(wanted);
    if (number && *number >= 0 && *number < static_cast<double>(columns_) && is_label(*number)) {
      return static_cast<int64_t>(*number);
    }
    throw ArgumentError(fmt::format("{} has no column {}: expected a name of its header or 0 to {}", file_,
                                    quote(wanted), columns_ - 1));
  }

  void index_lines() {
    Lines lines(text_, 0);
    if (has_header_) lines.next();
    while (lines.next()) {
      if (count_++ % kStride == 0) places_.push_back(static_cast<int64_t>(lines.start()));
    }
    places_.shrink_to_fit();
    if (count_ == 0) throw InputError({.source = file_}, "a header alone", "a line of numbers for each sample");
  }

  bool labels_are_integers() const {
    Lines lines(text_, static_cast<size_t>(places_[0]));
    for (int64_t i = 0; i < std::min(count_, kLookedAt); ++i) {
      Cells cells(*lines.next());
      std::optional<std::string_view> cell;
      for (int64_t column = 0; column <= label_; ++column) cell = cells.next();
      const auto value = cell ? number_of(*cell) : std::nullopt;
      if (value && !is_label(*value)) return false;
    }
    return true;
  }

  std::pair<std::string_view, size_t> line_of(int64_t index) const {
    Lines lines(text_, static_cast<size_t>(places_[static_cast<size_t>(index / kStride)]));
    for (int64_t i = 0; i < index % kStride; ++i) lines.next();
    const std::string_view line = *lines.next();
    return {line, lines.start()};
  }

  double checked_number(std::string_view cell, size_t start, int64_t column) const {
    const auto value = number_of(cell);
    if (!value) throw DataError(place_of(start, column), cell.empty() ? "an empty cell" : quote(cell), "a number");
    if (options_.check_finite && !std::isfinite(static_cast<float>(*value))) {
      throw DataError(place_of(start, column), quote(cell), "a finite number");
    }
    return *value;
  }

  void write_label(double value, size_t start, int64_t column, std::span<std::byte> into) const {
    if (fields_[1].spec.dtype == DType::f32) {
      const auto label = static_cast<float>(value);
      std::memcpy(into.data(), &label, sizeof label);
      return;
    }
    const bool fits =
        is_label(value) && (options_.classes == 0 || (value >= 0 && value < static_cast<double>(options_.classes)));
    if (!fits) {
      throw DataError(place_of(start, column), fmt::format("label {}", value),
                      options_.classes == 0 ? std::string("an integer") : fmt::format("0 to {}", options_.classes - 1));
    }
    const auto label = static_cast<int64_t>(value);
    std::memcpy(into.data(), &label, sizeof label);
  }

  [[noreturn]] void fail_columns(size_t start, const std::string& found) const {
    throw DataError(place_of(start), found, fmt::format("{}, as in the first line", columns_));
  }

  // Lines are counted only where a message needs them.
  Place place_of(size_t start, int64_t column = 0) const {
    const std::string_view before = text_.substr(0, start);
    return {.source = file_, .line = 1 + std::count(before.begin(), before.end(), '\n'), .column = column};
  }

  std::string_view text_;
  std::string file_;
  std::shared_ptr<const void> owner_;
  OpenOptions options_;
  bool has_header_ = false;
  int64_t columns_ = 0;
  int64_t label_ = 0;
  int64_t count_ = 0;
  std::vector<int64_t> places_;  // of every kStride-th line
  std::vector<Field> fields_;
};

}  // namespace

std::unique_ptr<Source> csv_source(std::string_view text, const std::string& file, std::shared_ptr<const void> owner,
                                   const OpenOptions& options) {
  return std::make_unique<Csv>(text, file, std::move(owner), options);
}

std::unique_ptr<Source> open_csv(const std::string& path, const OpenOptions& options) {
  const auto mapped = std::make_shared<const MappedFile>(path);
  const std::string_view text(reinterpret_cast<const char*>(mapped->bytes().data()), mapped->bytes().size());
  return csv_source(text, path, mapped, options);
}

}  // namespace plimsoll::train::data
