#include "plimsoll/pack/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <unordered_map>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/pack/oracle.h"

namespace plimsoll::pack {
namespace {

enum Column { kId, kLower, kUpper, kSize, kAlignment, kOffset, kGaps };
constexpr std::array<std::string_view, 7> kColumns = {"id", "lower", "upper", "size", "alignment", "offset", "gaps"};
constexpr int kRequired = 4;

// A piece of the text and where it stands; a Place only when it is needed, for there are millions of fields.
struct Field {
  std::string_view text;
  const std::string* source;
  int64_t line = 0;
  int64_t column = 1;
};

[[noreturn]] void reject(const Field& field, std::string_view expected) {
  throw InputError({.source = *field.source, .line = field.line, .column = field.column}, quote(field.text), expected);
}

[[noreturn]] void reject_line(const Field& field, std::string_view message) {
  throw InputError({.source = *field.source, .line = field.line}, message);
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

void split(const Field& whole, char separator, std::vector<Field>& parts) {
  parts.clear();
  for (size_t begin = 0; begin <= whole.text.size();) {
    const size_t end = std::min(whole.text.find(separator, begin), whole.text.size());
    parts.push_back({trim(whole.text.substr(begin, end - begin)), whole.source, whole.line,
                     whole.column + static_cast<int64_t>(begin)});
    begin = end + 1;
  }
}

int64_t parse_integer(const Field& field, int64_t least, std::string_view expected) {
  int64_t value = 0;
  const char* end = field.text.data() + field.text.size();
  const auto [stop, error] = std::from_chars(field.text.data(), end, value);
  if (error != std::errc() || stop != end || value < least) reject(field, expected);
  return value;
}

Gap parse_gap(const Field& field) {
  const size_t dash = field.text.find('-', 1);  // a leading '-' is a sign
  if (dash == std::string_view::npos) reject(field, "a gap like 3-5");
  Field first = field;
  first.text = field.text.substr(0, dash);
  Field end = field;
  end.text = field.text.substr(dash + 1);
  const Gap gap{parse_integer(first, INT64_MIN, "a gap like 3-5"), parse_integer(end, INT64_MIN, "a gap like 3-5")};
  if (gap.first >= gap.end) reject(field, "a gap that ends after it begins");
  return gap;
}

std::vector<Gap> parse_gaps(const Field& field, const Buffer& buffer) {
  std::vector<Gap> gaps;
  std::vector<Field> parts;
  split(field, ' ', parts);
  int64_t from = buffer.first;
  bool alive = false;
  for (const Field& part : parts) {
    if (part.text.empty()) continue;
    gaps.push_back(parse_gap(part));
    alive |= gaps.back().first > from;
    if (gaps.back().first < from || gaps.back().end > buffer.end) {
      reject(part, "gaps in order, apart, within the lifetime");
    }
    from = gaps.back().end;
  }
  if (from == buffer.end && !alive) reject(field, "gaps that leave some of the lifetime");
  return gaps;
}

// Where each known column stands in a line, -1 when it is not there.
class Header {
 public:
  explicit Header(const std::vector<Field>& names) : width_(names.size()) {
    at_.fill(-1);
    for (size_t i = 0; i < names.size(); ++i) add(names[i], static_cast<int>(i));
    for (int column = 0; column < kRequired; ++column) {
      if (at_[column] >= 0) continue;
      reject_line(names[0], fmt::format("no column '{}', expected id,lower,upper,size", kColumns[column]));
    }
  }

  size_t width() const { return width_; }

  // Nothing when the column is absent or the field is empty.
  const Field* find(const std::vector<Field>& fields, Column column) const {
    if (at_[column] < 0 || fields[at_[column]].text.empty()) return nullptr;
    return &fields[at_[column]];
  }
  const Field& get(const std::vector<Field>& fields, Column column) const { return fields[at_[column]]; }

 private:
  void add(const Field& name, int at) {
    const auto known = std::find(kColumns.begin(), kColumns.end(), name.text);
    if (known == kColumns.end()) reject(name, fmt::format("one of the columns {}", fmt::join(kColumns, ",")));
    int& place = at_[known - kColumns.begin()];
    if (place >= 0) reject(name, "each column once");
    place = at;
  }

  size_t width_;
  std::array<int, kColumns.size()> at_{};
};

Buffer parse_buffer(const Header& header, const std::vector<Field>& fields) {
  Buffer buffer;
  buffer.first = parse_integer(header.get(fields, kLower), INT64_MIN, "an integer time");
  buffer.end = parse_integer(header.get(fields, kUpper), INT64_MIN, "an integer time");
  if (buffer.end <= buffer.first) {
    reject(header.get(fields, kUpper), fmt::format("an end after the lower time {}", buffer.first));
  }
  buffer.bytes = parse_integer(header.get(fields, kSize), 1, "a size of at least 1 byte");
  if (const Field* field = header.find(fields, kAlignment)) {
    buffer.alignment = parse_integer(*field, 1, "an alignment of at least 1 byte");
  }
  if (const Field* field = header.find(fields, kOffset)) {
    buffer.fixed_offset = parse_integer(*field, 0, "an offset of at least 0");
    if (*buffer.fixed_offset % buffer.alignment != 0) {
      reject(*field, fmt::format("a multiple of the alignment {}", buffer.alignment));
    }
    if (!checked_add(*buffer.fixed_offset, buffer.bytes)) reject(*field, "an end that fits in 63 bits");
  }
  if (const Field* field = header.find(fields, kGaps)) buffer.gaps = parse_gaps(*field, buffer);
  return buffer;
}

// The lines of a text one after the other, empty ones left out.
class Lines {
 public:
  Lines(std::string_view text, const std::string& source) : rest_(text), source_(source) {
    if (rest_.starts_with("\xef\xbb\xbf")) rest_.remove_prefix(3);  // a byte order mark
  }

  bool next(std::vector<Field>& fields) {
    while (!rest_.empty()) {
      const size_t end = std::min(rest_.find('\n'), rest_.size());
      const std::string_view line = rest_.substr(0, end);
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      ++line_;
      if (trim(line).empty()) continue;
      split({.text = line, .source = &source_, .line = line_}, ',', fields);
      return true;
    }
    return false;
  }

 private:
  std::string_view rest_;
  const std::string& source_;
  int64_t line_ = 0;
};

class Reader {
 public:
  Reader(std::string_view text, const std::string& source) : lines_(text, source), source_(source) {}

  Table read() {
    std::vector<Field> fields;
    if (!lines_.next(fields)) throw InputError({.source = source_}, "empty, expected a header id,lower,upper,size");
    const Header header(fields);
    while (lines_.next(fields)) add(header, fields);
    if (table_.buffers.empty()) throw InputError({.source = source_}, "no buffers after the header");
    check_fixed_offsets();
    return std::move(table_);
  }

 private:
  void add(const Header& header, const std::vector<Field>& fields) {
    if (fields.size() != header.width()) {
      reject_line(fields[0], fmt::format("found {} fields, expected {}", fields.size(), header.width()));
    }
    add_id(header.get(fields, kId));
    table_.buffers.push_back(parse_buffer(header, fields));
    const auto total = checked_add(total_bytes_, table_.buffers.back().bytes);
    if (!total) reject(header.get(fields, kSize), "sizes that add up to less than 2^63");
    total_bytes_ = *total;
  }

  void add_id(const Field& id) {
    if (id.text.empty()) reject(id, "an id");
    const auto [known, fresh] = line_of_id_.emplace(id.text, id.line);
    if (!fresh) reject(id, fmt::format("each id once (first on line {})", known->second));
    table_.ids.emplace_back(id.text);
  }

  void check_fixed_offsets() const {
    std::vector<Buffer> fixed;
    std::vector<int64_t> offsets;
    std::vector<std::string> ids;
    for (size_t i = 0; i < table_.buffers.size(); ++i) {
      if (!table_.buffers[i].fixed_offset) continue;
      fixed.push_back(table_.buffers[i]);
      offsets.push_back(*table_.buffers[i].fixed_offset);
      ids.push_back(table_.ids[i]);
    }
    const auto fault = find_fault(fixed, offsets);
    if (!fault) return;
    const std::string& later = ids[fault->other];
    throw InputError(
        {.source = source_, .line = line_of_id_.at(later)},
        fmt::format("the fixed offset {} of {} collides with {} (line {}) at time {}", offsets[fault->other],
                    quote(later), quote(ids[fault->buffer]), line_of_id_.at(ids[fault->buffer]), fault->time));
  }

  Lines lines_;
  const std::string& source_;
  Table table_;
  std::unordered_map<std::string, int64_t> line_of_id_;
  int64_t total_bytes_ = 0;
};

std::string gaps_text(const std::vector<Gap>& gaps) {
  std::vector<std::string> parts;
  for (const Gap& gap : gaps) parts.push_back(fmt::format("{}-{}", gap.first, gap.end));
  return fmt::format("{}", fmt::join(parts, " "));
}

}  // namespace

Table parse_csv(std::string_view text, const std::string& source) { return Reader(text, source).read(); }

Table read_csv(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text;
  std::array<char, 1 << 16> chunk;
  while (in.read(chunk.data(), chunk.size()) || in.gcount() > 0) text.append(chunk.data(), in.gcount());
  if (!in.eof()) throw SystemError::from_errno(fmt::format("reading {}", path.string()), errno);
  return parse_csv(text, path.string());
}

std::string to_csv(const Table& table, std::span<const int64_t> offsets) {
  const auto& buffers = table.buffers;
  const bool alignment = std::any_of(buffers.begin(), buffers.end(), [](const Buffer& b) { return b.alignment != 1; });
  const bool gaps = std::any_of(buffers.begin(), buffers.end(), [](const Buffer& b) { return !b.gaps.empty(); });
  std::string out = fmt::format("id,lower,upper,size{}{},offset\n", alignment ? ",alignment" : "", gaps ? ",gaps" : "");
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    fmt::format_to(std::back_inserter(out), "{},{},{},{}", table.ids[i], buffer.first, buffer.end, buffer.bytes);
    if (alignment) fmt::format_to(std::back_inserter(out), ",{}", buffer.alignment);
    if (gaps) fmt::format_to(std::back_inserter(out), ",{}", gaps_text(buffer.gaps));
    fmt::format_to(std::back_inserter(out), ",{}\n", offsets[i]);
  }
  return out;
}

}  // namespace plimsoll::pack
