#include "plimsoll/models/weights/zip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "plimsoll/base/error.h"

namespace plimsoll::models {
namespace {

constexpr uint32_t kLocal = 0x04034b50;
constexpr uint32_t kCentral = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50;
constexpr uint32_t kWideEnd = 0x06064b50;
constexpr uint32_t kWideLocator = 0x07064b50;
constexpr size_t kLocalBytes = 30;
constexpr size_t kCentralBytes = 46;
constexpr size_t kEndBytes = 22;
constexpr size_t kWideEndBytes = 56;
constexpr size_t kLocatorBytes = 20;
constexpr size_t kLongestComment = 65535;
constexpr uint32_t kElsewhere = 0xffffffff;  // the size or place stands in the wide part
constexpr uint64_t kMostRatio = 1032;        // that deflate can reach

class Archive {
 public:
  explicit Archive(const MappedFile& file) : path_(file.path()), bytes_(file.bytes()) {}

  ZipEntries read() const {
    const Directory directory = find_directory();
    ZipEntries entries;
    uint64_t at = directory.first;
    for (uint64_t i = 0; i < directory.count; ++i) {
      need(at, kCentralBytes, "an entry of the directory");
      if (load<uint32_t>(at) != kCentral) fail(at, "no entry of the directory");
      const auto name_bytes = load<uint16_t>(at + 28);
      const auto extra_bytes = load<uint16_t>(at + 30);
      const auto comment_bytes = load<uint16_t>(at + 32);
      need(at + kCentralBytes, uint64_t{name_bytes} + extra_bytes, "an entry of the directory");
      const std::string name(text(at + kCentralBytes, name_bytes));
      if (!entries.emplace(name, entry_at(at, name_bytes, extra_bytes)).second) fail(at, "a name that was there");
      at += kCentralBytes + name_bytes + extra_bytes + comment_bytes;
    }
    return entries;
  }

 private:
  struct Directory {
    uint64_t first, count;
  };

  [[noreturn]] void fail(uint64_t at, std::string_view what) const {
    throw InputError({.source = path_, .offset = static_cast<int64_t>(at)}, what, "a whole zip archive");
  }
  void need(uint64_t at, uint64_t size, std::string_view what) const {
    if (at > bytes_.size() || size > bytes_.size() - at) fail(at, fmt::format("{} is cut short", what));
  }
  template <class T>
  T load(uint64_t at) const {
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof(T));
    return value;
  }
  std::string_view text(uint64_t at, size_t size) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + at, size};
  }

  // Its record is the last that looks like one: a comment may follow it.
  uint64_t find_end() const {
    if (bytes_.size() < kEndBytes) fail(0, fmt::format("a file of {} bytes", bytes_.size()));
    const uint64_t last = bytes_.size() - kEndBytes;
    const uint64_t first = last > kLongestComment ? last - kLongestComment : 0;
    for (uint64_t at = last + 1; at-- > first;) {
      if (load<uint32_t>(at) == kEnd) return at;
    }
    fail(last, "no end of a directory");
  }

  Directory find_directory() const {
    const uint64_t end = find_end();
    const Directory narrow{load<uint32_t>(end + 16), load<uint16_t>(end + 10)};
    if (narrow.first != kElsewhere && narrow.count != 0xffff) return narrow;
    if (end < kLocatorBytes || load<uint32_t>(end - kLocatorBytes) != kWideLocator) return narrow;
    const auto wide = load<uint64_t>(end - kLocatorBytes + 8);
    need(wide, kWideEndBytes, "the end of the directory");
    if (load<uint32_t>(wide) != kWideEnd) fail(wide, "no end of a directory");
    return {load<uint64_t>(wide + 48), load<uint64_t>(wide + 32)};
  }

  struct Place {
    uint64_t size, stored, first;
  };

  // Numbers that do not fit in 32 bits stand in the extra field 1, in this order.
  Place widened(uint64_t at, size_t extra_bytes, Place place) const {
    const uint64_t end = at + extra_bytes;
    while (at + 4 <= end) {
      const auto id = load<uint16_t>(at);
      const auto size = load<uint16_t>(at + 2);
      const uint64_t next = at + 4 + size;
      if (next > end) break;
      uint64_t number = at + 4;
      for (uint64_t* one : {&place.size, &place.stored, &place.first}) {
        if (id != 1 || *one != kElsewhere || number + 8 > next) continue;
        *one = load<uint64_t>(number);
        number += 8;
      }
      at = next;
    }
    return place;
  }

  ZipEntry entry_at(uint64_t at, size_t name_bytes, size_t extra_bytes) const {
    const auto flags = load<uint16_t>(at + 8);
    const auto method = load<uint16_t>(at + 10);
    if ((flags & 1) != 0) fail(at, "an encrypted file");
    if (method != 0 && method != 8) fail(at, fmt::format("compression method {}, not stored or deflated", method));
    const Place place = widened(at + kCentralBytes + name_bytes, extra_bytes,
                                {load<uint32_t>(at + 24), load<uint32_t>(at + 20), load<uint32_t>(at + 42)});
    need(place.first, kLocalBytes, "a file");
    if (load<uint32_t>(place.first) != kLocal) fail(place.first, "no file where the directory has one");
    const uint64_t first =
        place.first + kLocalBytes + load<uint16_t>(place.first + 26) + load<uint16_t>(place.first + 28);
    need(first, place.stored, "a file");
    if (method == 0 && place.size != place.stored) fail(at, "a stored file of two sizes");
    if (method == 8 && place.size / kMostRatio > place.stored + 1) fail(at, "a file larger than deflate can make");
    return {bytes_.subspan(first, place.stored), method == 8, place.size};
  }

  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace

ZipEntries read_zip(const MappedFile& file) { return Archive(file).read(); }

std::shared_ptr<const std::vector<std::byte>> inflate_entry(const std::string& path, const std::string& name,
                                                            const ZipEntry& entry) {
  auto bytes = std::make_shared<std::vector<std::byte>>(entry.size);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw SystemError(fmt::format("inflating {} failed", path));
  constexpr uint64_t kMostAtOnce = std::numeric_limits<uInt>::max();
  uint64_t read = 0;
  uint64_t written = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(entry.bytes.data()) + read);  // NOLINT: zlib's
    stream.avail_in = static_cast<uInt>(std::min(kMostAtOnce, entry.bytes.size() - read));
    stream.next_out = reinterpret_cast<Bytef*>(bytes->data() + written);
    stream.avail_out = static_cast<uInt>(std::min(kMostAtOnce, bytes->size() - written));
    const uInt in = stream.avail_in;
    const uInt out = stream.avail_out;
    status = inflate(&stream, Z_NO_FLUSH);
    read += in - stream.avail_in;
    written += out - stream.avail_out;
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || written != bytes->size()) {
    throw InputError({.source = path}, fmt::format("{} does not inflate to its {} bytes", quote(name), entry.size));
  }
  return bytes;
}

}  // namespace plimsoll::models
