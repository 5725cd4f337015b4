#include "plimsoll/trace/binary.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>

#include "plimsoll/base/error.h"
#include "plimsoll/trace/live_set.h"

namespace plimsoll::trace {
namespace {

constexpr std::string_view kMagic = "\x89PLMTRC\n";  // as PNG's: no text begins so, and a text-mode copy breaks it
constexpr uint64_t kVersion = 1;
constexpr size_t kHeaderBytes = 24;  // magic, version, check sum and length of the body
constexpr size_t kLeastEventBytes = 4;
constexpr size_t kLeastTagBytes = 2;

// Flags of an event.
constexpr uint8_t kFree = 1;
constexpr uint8_t kNewTag = 2;     // other than that of the event before
constexpr uint8_t kNewStream = 4;  // likewise
constexpr uint8_t kAllFlags = kFree | kNewTag | kNewStream;

uint32_t checksum(std::string_view bytes) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// Small numbers of either sign as small unsigned ones.
uint64_t zigzag(int64_t value) { return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63); }
int64_t unzigzag(uint64_t code) { return static_cast<int64_t>(code >> 1) ^ -static_cast<int64_t>(code & 1); }

// after - before and its inverse, without overflow for any two numbers.
uint64_t delta(int64_t before, int64_t after) {
  return zigzag(static_cast<int64_t>(static_cast<uint64_t>(after) - static_cast<uint64_t>(before)));
}
int64_t apply(int64_t before, uint64_t code) {
  return static_cast<int64_t>(static_cast<uint64_t>(before) + static_cast<uint64_t>(unzigzag(code)));
}

class Encoder {
 public:
  explicit Encoder(const Trace& trace) : trace_(trace) {}

  std::string run() {
    put_varint(static_cast<uint64_t>(trace_.dropped));
    put_tags();
    put_varint(trace_.events.size());
    Event before;
    for (const Event& event : trace_.events) {
      put_event(before, event);
      before = event;
    }
    const std::string body = std::move(out_);
    out_ = kMagic;
    put_fixed(kVersion, 4);
    put_fixed(checksum(body), 4);
    put_fixed(body.size(), 8);
    return out_ + body;
  }

 private:
  void put_tags() {
    put_varint(trace_.tags.size() - 1);
    for (uint32_t i = 1; i < trace_.tags.size(); ++i) {
      const Tag& tag = trace_.tags[i];
      out_ += static_cast<char>(tag.category);
      put_varint(tag.name.size());
      out_ += tag.name;
    }
  }

  void put_event(const Event& before, const Event& event) {
    const int flags = (event.kind == EventKind::free ? kFree : 0) | (event.tag != before.tag ? kNewTag : 0) |
                      (event.stream != before.stream ? kNewStream : 0);
    out_ += static_cast<char>(flags);
    put_varint(delta(before.time_ns, event.time_ns));
    put_varint(delta(before.id, event.id));
    put_varint(static_cast<uint64_t>(event.bytes));
    if (event.tag != before.tag) put_varint(event.tag);
    if (event.stream != before.stream) put_varint(static_cast<uint64_t>(event.stream));
  }

  void put_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_ += static_cast<char>(value | 0x80);
    out_ += static_cast<char>(value);
  }

  void put_fixed(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i));
  }

  const Trace& trace_;
  std::string out_;
};

class Decoder {
 public:
  Decoder(std::string_view bytes, const std::string& source) : bytes_(bytes), source_(source) {}

  Trace run() {
    take_header();
    trace_.dropped = static_cast<int64_t>(take_varint("the drop count", INT64_MAX));
    take_tags();
    const uint64_t events = take_count("the number of events", kLeastEventBytes);
    trace_.events.reserve(events);
    for (uint64_t i = 0; i < events; ++i) take_event();
    if (at_ != bytes_.size()) fail(at_, fmt::format("{} more bytes", bytes_.size() - at_), "the end of the trace");
    return std::move(trace_);
  }

 private:
  void take_header() {
    if (!is_binary(bytes_)) fail(0, quote(bytes_.substr(0, kMagic.size())), "the first bytes of a binary trace");
    if (bytes_.size() < kHeaderBytes) fail(bytes_.size(), "the end of the file", "a header of 24 bytes");
    const uint64_t version = fixed(8, 4);
    if (version != kVersion) {
      fail(8, fmt::format("version {}", version), "version 1; a newer plimsoll may read this file");
    }
    at_ = kHeaderBytes;
    const uint64_t length = fixed(16, 8);
    const std::string_view body = bytes_.substr(kHeaderBytes);
    if (body.size() != length) {
      fail(bytes_.size(), fmt::format("the end of the file after {} bytes", body.size()),
           fmt::format("{} after the header; copy or record the file again", length));
    }
    if (checksum(body) != fixed(12, 4)) {
      fail(12, fmt::format("check sum {:08x}", fixed(12, 4)),
           fmt::format("{:08x}; the file is damaged, copy or record it again", checksum(body)));
    }
  }

  void take_tags() {
    const uint64_t count = take_count("the number of tags", kLeastTagBytes);
    for (uint64_t i = 1; i <= count; ++i) {
      const size_t start = at_;
      const uint64_t category = take_byte("a category", kAllCategories.size() - 1);
      const uint64_t length = take_count("the length of a tag", 1);
      const std::string_view name = bytes_.substr(at_, length);
      at_ += length;
      if (trace_.tags.intern(static_cast<Category>(category), name) != i) {
        fail(start, "tag " + quote(name) + " twice", "each tag once");
      }
    }
  }

  void take_event() {
    const size_t start = at_;
    const uint64_t flags = take_byte("the flags of an event", kAllFlags);
    Event event = before_;
    event.kind = (flags & kFree) != 0 ? EventKind::free : EventKind::alloc;
    event.time_ns = apply(before_.time_ns, take_varint("a time", UINT64_MAX));
    event.id = apply(before_.id, take_varint("an id", UINT64_MAX));
    event.bytes = static_cast<int64_t>(take_varint("a number of bytes", INT64_MAX));
    if ((flags & kNewTag) != 0) event.tag = static_cast<uint32_t>(take_varint("a tag", trace_.tags.size() - 1));
    if ((flags & kNewStream) != 0) event.stream = static_cast<int16_t>(take_varint("a stream", INT16_MAX));
    if (event.time_ns < 0) fail(start, fmt::format("time {}", event.time_ns), "0 or more");
    if (event.id < 0) fail(start, fmt::format("id {}", event.id), "0 or more");
    if (!lifetimes_.accepts(event)) throw InputError(place(start), lifetime_fault(trace_.events, event));
    trace_.events.push_back(event);
    before_ = event;
  }

  uint64_t take_byte(std::string_view what, uint64_t most) {
    if (at_ == bytes_.size()) fail(at_, "the end of the file", what);
    const auto value = static_cast<uint8_t>(bytes_[at_]);
    if (value > most) fail(at_, fmt::format("{}", value), fmt::format("{} from 0 to {}", what, most));
    ++at_;
    return value;
  }

  uint64_t take_varint(std::string_view what, uint64_t most) {
    const size_t start = at_;
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint64_t byte = take_byte(what, UINT8_MAX);
      value |= (byte & 0x7f) << shift;
      if (shift == 63 && byte > 1) break;  // more than 64 bits
      if (byte < 0x80 && value <= most) return value;
      if (byte < 0x80) break;
    }
    fail(start, "a number that is too large", fmt::format("{} of at most {}", what, most));
  }

  // A number of things that take at least `least_bytes` each, so that a corrupt one cannot ask for more than is there.
  uint64_t take_count(std::string_view what, size_t least_bytes) {
    const size_t start = at_;
    const uint64_t count = take_varint(what, UINT64_MAX);
    const uint64_t most = (bytes_.size() - at_) / least_bytes;
    if (count > most) fail(start, fmt::format("{}", count), fmt::format("{} of at most {}", what, most));
    return count;
  }

  uint64_t fixed(size_t offset, size_t bytes) const {
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes_[offset + i]);
    return value;
  }

  Place place(size_t offset) const { return {.source = source_, .offset = static_cast<int64_t>(offset)}; }

  [[noreturn]] void fail(size_t offset, std::string_view found, std::string_view expected) const {
    throw InputError(place(offset), found, expected);
  }

  std::string_view bytes_;
  const std::string& source_;
  size_t at_ = 0;
  Trace trace_;
  LifetimeChecker lifetimes_;
  Event before_;
};

}  // namespace

bool is_binary(std::string_view bytes) { return bytes.starts_with(kMagic); }

Trace parse_binary(std::string_view bytes, const std::string& source) { return Decoder(bytes, source).run(); }

std::string to_binary(const Trace& trace) { return Encoder(trace).run(); }

}  // namespace plimsoll::trace
