#include "plimsoll/trace/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>

#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/base/gzip.h"
#include "plimsoll/trace/live_set.h"

namespace plimsoll::trace {
namespace {

enum class Column : uint8_t { event, id, bytes, stream, time_ns, category, tag };
constexpr std::array<std::string_view, 7> kColumnNames = {"event",   "id",       "bytes", "stream",
                                                          "time_ns", "category", "tag"};
constexpr size_t kRequiredColumns = 4;

std::string_view kind_name(EventKind kind) { return kind == EventKind::alloc ? "alloc" : "free"; }
std::string_view name(Column column) { return kColumnNames[static_cast<size_t>(column)]; }

// Lines and columns are counted only when an error needs them.
Place place_of(std::string_view text, size_t position, const std::string& source) {
  const std::string_view before = text.substr(0, position);
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return {.source = source,
          .line = 1 + std::count(before.begin(), before.end(), '\n'),
          .column = static_cast<int64_t>(position - line_start) + 1};
}

class CsvParser {
 public:
  CsvParser(std::string_view text, const std::string& source)
      : text_(text), source_(source), at_(text.data()), end_(text.data() + text.size()) {}

  Trace run() {
    constexpr size_t kTypicalLine = 20;
    trace_.events.reserve(text_.size() / kTypicalLine);
    if (text_.starts_with("\xef\xbb\xbf")) at_ += 3;  // a byte order mark
    parse_header();
    while (at_ != end_) {
      if (!take_line_end()) parse_event();
    }
    return std::move(trace_);
  }

 private:
  void parse_header() {
    do {
      const char* start = at_;
      const std::string_view field = take_field();
      const auto found = std::find(kColumnNames.begin(), kColumnNames.end(), field);
      if (found == kColumnNames.end()) {
        fail(start, quote(field), fmt::format("one of the columns {}", fmt::join(kColumnNames, ",")));
      }
      const auto column = static_cast<Column>(found - kColumnNames.begin());
      if (has(column)) fail(start, fmt::format("column {} twice", field), "each column once");
      columns_.push_back(column);
    } while (take_comma());
    for (size_t i = 0; i < kRequiredColumns; ++i) {
      if (!has(static_cast<Column>(i))) fail(at_, "the end of the header", fmt::format("a column {}", kColumnNames[i]));
    }
    take_line_end();
  }

  bool has(Column column) const { return std::find(columns_.begin(), columns_.end(), column) != columns_.end(); }

  void parse_event() {
    const char* start = at_;
    event_ = {};
    category_ = Category::other;
    tag_.clear();
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (i > 0 && !take_comma()) missing(columns_[i]);
      parse_field(columns_[i]);
    }
    if (at_ != end_ && !take_line_end()) {
      fail(at_, quote(rest_of_line()), fmt::format("the end of the line after {} columns", columns_.size()));
    }
    event_.tag = trace_.tags.intern(category_, tag_);
    if (!lifetimes_.accepts(event_)) throw InputError(place(start), lifetime_fault(trace_.events, event_));
    trace_.events.push_back(event_);
  }

  void parse_field(Column column) {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    switch (column) {
      case Column::event:
        event_.kind = parse_kind();
        break;
      case Column::id:
        event_.id = parse_number(column, 0, kMost);
        break;
      case Column::bytes:
        event_.bytes = parse_number(column, 1, kMost);
        break;
      case Column::stream:
        event_.stream = static_cast<int16_t>(parse_number(column, 0, INT16_MAX));
        break;
      case Column::time_ns:
        event_.time_ns = parse_number(column, 0, kMost);
        break;
      case Column::category:
        category_ = parse_category();
        break;
      case Column::tag:
        tag_ = parse_tag();
        break;
    }
  }

  EventKind parse_kind() {
    const char* start = at_;
    const std::string_view field = take_field();
    for (const EventKind kind : {EventKind::alloc, EventKind::free}) {
      if (field == kind_name(kind)) return kind;
    }
    fail(start, quote(field), "alloc or free");
  }

  int64_t parse_number(Column column, int64_t least, int64_t most) {
    int64_t number = 0;
    const char* start = at_;
    const auto [end, error] = std::from_chars(at_, end_, number);
    at_ = end;
    if (error == std::errc{} && at_field_end() && number >= least && number <= most) return number;
    at_ = start;
    fail(start, quote(take_field()), fmt::format("{} as a whole number from {} to {}", name(column), least, most));
  }

  Category parse_category() {
    const char* start = at_;
    const std::string_view field = take_field();
    if (field.empty()) return Category::other;
    if (const auto category = try_parse_category(field)) return *category;
    std::string names;
    for (const Category category : kAllCategories) names += fmt::format(" {}", plimsoll::name(category));
    fail(start, quote(field), "one of the categories" + names);
  }

  std::string parse_tag() {
    if (at_ == end_ || *at_ != '"') return std::string(take_field());
    const char* start = at_++;
    std::string tag;
    while (true) {
      const auto* close = static_cast<const char*>(std::memchr(at_, '"', static_cast<size_t>(end_ - at_)));
      if (close == nullptr) fail(start, "a quote that is not closed", "a tag that ends in a double quote");
      tag.append(at_, close);
      at_ = close + 1;
      if (at_ == end_ || *at_ != '"') break;
      tag += *at_++;  // a doubled quote stands for one
    }
    if (!at_field_end()) fail(at_, quote(rest_of_line()), "a comma or the end of the line after the quoted tag");
    return tag;
  }

  bool at_field_end() const { return at_ == end_ || *at_ == ',' || *at_ == '\n' || *at_ == '\r'; }

  std::string_view take_field() {
    const char* start = at_;
    while (!at_field_end()) ++at_;
    return {start, static_cast<size_t>(at_ - start)};
  }

  bool take_comma() {
    if (at_ == end_ || *at_ != ',') return false;
    ++at_;
    return true;
  }

  bool take_line_end() {
    const char* after = at_ != end_ && *at_ == '\r' ? at_ + 1 : at_;
    if (after == end_ || *after != '\n') return false;
    at_ = after + 1;
    return true;
  }

  std::string_view rest_of_line() const {
    const std::string_view rest(at_, static_cast<size_t>(end_ - at_));
    return rest.substr(0, rest.find('\n'));
  }

  Place place(const char* at) const { return place_of(text_, static_cast<size_t>(at - text_.data()), source_); }

  [[noreturn]] void fail(const char* at, std::string_view found, std::string_view expected) const {
    throw InputError(place(at), found, expected);
  }

  [[noreturn]] void missing(Column column) const {
    const std::string_view found = at_ == end_ ? "the end of the file" : "the end of the line";
    fail(at_, found, fmt::format("a comma and {}", name(column)));
  }

  std::string_view text_;
  const std::string& source_;
  const char* at_;
  const char* end_;
  std::vector<Column> columns_;  // in the order of the header
  Trace trace_;
  LifetimeChecker lifetimes_;
  // The line being read.
  Event event_;
  Category category_ = Category::other;
  std::string tag_;
};

Trace parse_gzip(std::string_view bytes, const std::string& source) {
  const Inflated inflated = gunzip(bytes);
  if (inflated.fault) {
    throw InputError(place_of(inflated.bytes, inflated.bytes.size(), source),
                     fmt::format("{} at byte {} of {} compressed ones; copy or record the file again",
                                 inflated.fault->message, inflated.fault->offset, bytes.size()));
  }
  return CsvParser(inflated.bytes, source).run();
}

std::string quoted_if_needed(const std::string& tag) {
  if (tag.find_first_of(",\"\r\n") == std::string::npos) return tag;
  std::string quoted = "\"";
  for (const char c : tag) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

Trace parse_csv(std::string_view bytes, const std::string& source) {
  return is_gzip(bytes) ? parse_gzip(bytes, source) : CsvParser(bytes, source).run();
}

Trace read_csv(const std::string& path) { return parse_csv(read_file(path), path); }

std::string to_csv(const Trace& trace) {
  const auto any = [&](auto has) { return std::any_of(trace.events.begin(), trace.events.end(), has); };
  const bool times = any([](const Event& event) { return event.time_ns != 0; });
  const bool tags = any([](const Event& event) { return event.tag != 0; });
  fmt::memory_buffer text;
  const auto out = fmt::appender(text);
  fmt::format_to(out, "event,id,bytes,stream{}{}\n", times ? ",time_ns" : "", tags ? ",category,tag" : "");
  for (const Event& event : trace.events) {
    fmt::format_to(out, "{},{},{},{}", kind_name(event.kind), event.id, event.bytes, event.stream);
    if (times) fmt::format_to(out, ",{}", event.time_ns);
    if (tags) {
      const Tag& tag = trace.tags[event.tag];
      fmt::format_to(out, ",{},{}", plimsoll::name(tag.category), quoted_if_needed(tag.name));
    }
    text.push_back('\n');
  }
  return fmt::to_string(text);
}

void write_csv(const Trace& trace, const std::string& path) {
  const std::string text = to_csv(trace);
  write_file(path, path.ends_with(".gz") ? gzip(text) : text);
}

}  // namespace plimsoll::trace
