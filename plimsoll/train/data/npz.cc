// The zip archives of .npz: the directory at the end, entries that are stored or deflated, sizes of 64 bits.
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "plimsoll/base/bytes.h"
#include "plimsoll/train/data/npy.h"

namespace plimsoll::train::data {
namespace {

constexpr uint32_t kEndRecord = 0x06054b50;
constexpr uint32_t kEndLocator64 = 0x07064b50;
constexpr uint32_t kEndRecord64 = 0x06064b50;
constexpr uint32_t kEntry = 0x02014b50;
constexpr uint32_t kLocalEntry = 0x04034b50;
constexpr uint64_t kEscape32 = 0xFFFFFFFF;  // the number is in the entry's extra field
constexpr int64_t kMostInflated = 16 * kGiB;

// Little-endian numbers, each checked to be there.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  uint64_t number(uint64_t at, int width) const {
    check(at, static_cast<uint64_t>(width), "the archive is cut short");
    uint64_t value = 0;
    for (int i = width - 1; i >= 0; --i)
      value = value << 8 | std::to_integer<uint64_t>(bytes_[at + static_cast<uint64_t>(i)]);
    return value;
  }
  std::span<const std::byte> part(uint64_t at, uint64_t length) const {
    check(at, length, "an entry names bytes that the archive does not have");
    return bytes_.subspan(at, length);
  }
  uint64_t size() const { return bytes_.size(); }
  [[noreturn]] void fail(uint64_t at, std::string_view message) const {
    throw InputError({.source = file_, .offset = static_cast<int64_t>(at)}, message);
  }

 private:
  void check(uint64_t at, uint64_t length, std::string_view message) const {
    if (at > bytes_.size() || length > bytes_.size() - at) fail(std::min<uint64_t>(at, bytes_.size()), message);
  }

  std::span<const std::byte> bytes_;
  const std::string& file_;
};

struct Directory {
  uint64_t entries = 0;
  uint64_t first = 0;
};

Directory find_directory(const Reader& zip) {
  constexpr uint64_t kRecordBytes = 22;
  constexpr uint64_t kMostComment = 65535;
  const uint64_t least = zip.size() > kRecordBytes + kMostComment ? zip.size() - kRecordBytes - kMostComment : 0;
  for (uint64_t at = zip.size() >= kRecordBytes ? zip.size() - kRecordBytes + 1 : 0; at > least; --at) {
    const uint64_t record = at - 1;
    if (zip.number(record, 4) != kEndRecord) continue;
    Directory directory{zip.number(record + 10, 2), zip.number(record + 16, 4)};
    if (record >= 20 && zip.number(record - 20, 4) == kEndLocator64) {
      const uint64_t wide = zip.number(record - 20 + 8, 8);
      if (zip.number(wide, 4) != kEndRecord64) zip.fail(wide, "found no zip64 record, expected one by its locator");
      directory = {zip.number(wide + 32, 8), zip.number(wide + 48, 8)};
    }
    return directory;
  }
  zip.fail(zip.size(),
           "found no directory of a zip archive, expected one at the end: the file is cut short or no .npz");
}

struct Entry {
  std::string name;
  uint64_t method = 0;  // 0: stored, 8: deflated
  uint64_t packed = 0;  // bytes
  uint64_t bytes = 0;
  uint64_t local = 0;  // where its local header is
  uint64_t next = 0;   // entry of the directory
};

// Sizes that 32 bits cannot hold are in the extra field, in this order.
void read_zip64(const Reader& zip, uint64_t at, uint64_t end, Entry& entry) {
  while (at + 4 <= end) {
    const uint64_t id = zip.number(at, 2);
    const uint64_t length = zip.number(at + 2, 2);
    if (id == 1) {
      uint64_t value = at + 4;
      for (uint64_t* number : {&entry.bytes, &entry.packed, &entry.local}) {
        if (*number != kEscape32) continue;
        *number = zip.number(value, 8);
        value += 8;
      }
      return;
    }
    at += 4 + length;
  }
}

Entry read_entry(const Reader& zip, uint64_t at) {
  if (zip.number(at, 4) != kEntry) zip.fail(at, "found no entry of a zip directory, expected one");
  Entry entry;
  entry.method = zip.number(at + 10, 2);
  entry.packed = zip.number(at + 20, 4);
  entry.bytes = zip.number(at + 24, 4);
  const uint64_t name = zip.number(at + 28, 2);
  const uint64_t extra = zip.number(at + 30, 2);
  const uint64_t comment = zip.number(at + 32, 2);
  entry.local = zip.number(at + 42, 4);
  const auto text = zip.part(at + 46, name);
  entry.name.assign(reinterpret_cast<const char*>(text.data()), text.size());
  zip.part(at + 46 + name, extra);
  read_zip64(zip, at + 46 + name, at + 46 + name + extra, entry);
  entry.next = at + 46 + name + extra + comment;
  return entry;
}

std::shared_ptr<std::vector<std::byte>> inflate_entry(const Reader& zip, const Entry& entry,
                                                      std::span<const std::byte> packed, uint64_t at) {
  constexpr uint64_t kMostRatio = 1032;  // that deflate can reach
  if (entry.bytes > static_cast<uint64_t>(kMostInflated) || entry.bytes / kMostRatio > packed.size()) {
    zip.fail(at, fmt::format("{} claims {} bytes in {}, more than deflate can pack", quote(entry.name), entry.bytes,
                             packed.size()));
  }
  auto bytes = std::make_shared<std::vector<std::byte>>(entry.bytes);
  z_stream zlib{};
  if (inflateInit2(&zlib, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  uint64_t done = 0;
  uint64_t used = 0;
  int status = Z_OK;
  while (status == Z_OK) {  // zlib counts in 32 bits
    const uint64_t in = std::min<uint64_t>(packed.size() - used, kGiB);
    const uint64_t out = std::min<uint64_t>(bytes->size() - done, kGiB);
    zlib.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + used));
    zlib.avail_in = static_cast<uInt>(in);
    zlib.next_out = reinterpret_cast<Bytef*>(bytes->data() + done);
    zlib.avail_out = static_cast<uInt>(out);
    status = inflate(&zlib, Z_NO_FLUSH);
    used += in - zlib.avail_in;
    done += out - zlib.avail_out;
  }
  inflateEnd(&zlib);
  if (status != Z_STREAM_END || done != entry.bytes) {
    zip.fail(at + used, fmt::format("{} is corrupt or cut short: {} of {} bytes could be inflated", quote(entry.name),
                                    done, entry.bytes));
  }
  return bytes;
}

NpyArray read_array(const Reader& zip, const Entry& entry, const std::string& file) {
  if (zip.number(entry.local, 4) != kLocalEntry) zip.fail(entry.local, "found no entry where the directory says");
  const uint64_t at = entry.local + 30 + zip.number(entry.local + 26, 2) + zip.number(entry.local + 28, 2);
  const auto packed = zip.part(at, entry.packed);
  const std::string name = fmt::format("{}[{}]", file, quote(entry.name));
  if (entry.method == 0) {
    NpyArray array = parse_npy(packed, name);
    array.offset += static_cast<int64_t>(at);
    return array;
  }
  if (entry.method != 8) {
    zip.fail(at, fmt::format("{} is packed by method {}, expected stored or deflated (numpy.savez)", quote(entry.name),
                             entry.method));
  }
  const auto bytes = inflate_entry(zip, entry, packed, at);
  NpyArray array = parse_npy(*bytes, name);
  array.owned_bytes = static_cast<int64_t>(bytes->size());
  array.owner = bytes;
  return array;
}

}  // namespace

std::map<std::string, NpyArray> parse_npz(std::span<const std::byte> bytes, const std::string& file) {
  const Reader zip(bytes, file);
  const Directory directory = find_directory(zip);
  std::map<std::string, NpyArray> arrays;
  uint64_t at = directory.first;
  uint64_t packed = 0;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    const Entry entry = read_entry(zip, at);
    if (entry.packed > zip.size() - packed) zip.fail(at, "entries have more bytes than the archive: they overlap");
    packed += entry.packed;
    std::string_view name = entry.name;
    if (name.ends_with(".npy")) {
      name.remove_suffix(4);
      arrays.insert_or_assign(std::string(name), read_array(zip, entry, file));
    }
    at = entry.next;
  }
  return arrays;
}

}  // namespace plimsoll::train::data
