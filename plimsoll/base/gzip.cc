#include "plimsoll/base/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <new>

#include "plimsoll/base/bytes.h"

namespace plimsoll {
namespace {

constexpr int kGzipWindow = 15 + 16;   // zlib's code for "gzip, largest window"
constexpr int64_t kMostAtOnce = kGiB;  // zlib counts in 32 bits
constexpr int64_t kChunkBytes = 256 * kKiB;

Bytef* bytes_of(const char* data) { return reinterpret_cast<Bytef*>(const_cast<char*>(data)); }

class Inflater {
 public:
  explicit Inflater(std::string_view input) : input_(input) {
    if (inflateInit2(&zlib_, kGzipWindow) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&zlib_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  Inflated run(int64_t most_bytes) {
    Inflated result;
    int status = Z_OK;
    while (!result.fault && (status != Z_STREAM_END || start_next_member())) {
      status = step(result.bytes);
      result.fault = fault(status, static_cast<int64_t>(result.bytes.size()), most_bytes);
    }
    return result;
  }

 private:
  bool start_next_member() { return consumed_ < input_.size() && inflateReset(&zlib_) == Z_OK; }

  // Appends what the next call of inflate gives.
  int step(std::string& output) {
    const size_t before = output.size();
    const auto room = std::clamp(static_cast<int64_t>(before), kChunkBytes, kMostAtOnce);
    output.resize(before + static_cast<size_t>(room));
    zlib_.next_in = bytes_of(input_.data() + consumed_);
    const auto offered = static_cast<uInt>(std::min<size_t>(input_.size() - consumed_, kMostAtOnce));
    zlib_.avail_in = offered;
    zlib_.next_out = bytes_of(output.data() + before);
    zlib_.avail_out = static_cast<uInt>(room);
    const int status = inflate(&zlib_, Z_NO_FLUSH);
    consumed_ += offered - zlib_.avail_in;
    output.resize(output.size() - zlib_.avail_out);
    return status;
  }

  std::optional<Inflated::Fault> fault(int status, int64_t inflated, int64_t most_bytes) const {
    const auto offset = static_cast<int64_t>(consumed_);
    if (inflated > most_bytes)
      return Inflated::Fault{offset, "the gzip data inflates past " + format_bytes(most_bytes)};
    if (status == Z_BUF_ERROR) return Inflated::Fault{offset, "the gzip data ends early"};
    if (status == Z_OK || status == Z_STREAM_END) return std::nullopt;
    return Inflated::Fault{
        offset, zlib_.msg != nullptr ? std::string("corrupt gzip data (") + zlib_.msg + ")" : "corrupt gzip data"};
  }

  z_stream zlib_{};
  std::string_view input_;
  size_t consumed_ = 0;
};

}  // namespace

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

Inflated gunzip(std::string_view bytes, int64_t most_bytes) { return Inflater(bytes).run(most_bytes); }

std::string gzip(std::string_view bytes) {
  z_stream zlib{};
  if (deflateInit2(&zlib, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  std::string output;
  int status = Z_OK;
  for (size_t consumed = 0; status != Z_STREAM_END;) {
    const size_t offered = std::min<size_t>(bytes.size() - consumed, kMostAtOnce);
    const size_t before = output.size();
    output.resize(before + kChunkBytes);
    zlib.next_in = bytes_of(bytes.data() + consumed);
    zlib.avail_in = static_cast<uInt>(offered);
    zlib.next_out = bytes_of(output.data() + before);
    zlib.avail_out = static_cast<uInt>(kChunkBytes);
    status = deflate(&zlib, consumed + offered == bytes.size() ? Z_FINISH : Z_NO_FLUSH);
    consumed += offered - zlib.avail_in;
    output.resize(output.size() - zlib.avail_out);
  }
  deflateEnd(&zlib);
  return output;
}

}  // namespace plimsoll
