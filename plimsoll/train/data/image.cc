#include "plimsoll/train/data/image.h"

#include <fmt/format.h>
#include <turbojpeg.h>

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/train/data/png.h"
#include "plimsoll/train/data/source.h"

namespace plimsoll::train::data {
namespace {

bool starts_with(std::span<const std::byte> file, std::initializer_list<int> bytes) {
  return file.size() >= bytes.size() && std::equal(bytes.begin(), bytes.end(), file.begin(), [](int a, std::byte b) {
           return std::byte(static_cast<uint8_t>(a)) == b;
         });
}
bool is_jpeg(std::span<const std::byte> file) { return starts_with(file, {0xFF, 0xD8, 0xFF}); }
bool is_png(std::span<const std::byte> file) {
  return starts_with(file, {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'});
}

[[noreturn]] void fail_unknown(std::span<const std::byte> file, const std::string& name) {
  throw DataError({.source = name, .offset = 0}, file.empty() ? "an empty file" : "no image", "a JPEG or a PNG");
}

const unsigned char* chars_of(std::span<const std::byte> file) {
  return reinterpret_cast<const unsigned char*>(file.data());
}

struct JpegHeader {
  ImageSize size;
  int colours = 0;
};

JpegHeader read_jpeg_header(void* jpeg, std::span<const std::byte> file, const std::string& name) {
  int width = 0;
  int height = 0;
  int subsampling = 0;
  JpegHeader header;
  if (tjDecompressHeader3(jpeg, chars_of(file), file.size(), &width, &height, &subsampling, &header.colours) != 0 &&
      (width <= 0 || height <= 0 || tjGetErrorCode(jpeg) == TJERR_FATAL)) {
    throw DataError({.source = name}, fmt::format("corrupt JPEG header: {}", tjGetErrorStr2(jpeg)));
  }
  header.size = {height, width};
  if (header.colours == TJCS_CMYK || header.colours == TJCS_YCCK) {
    throw DataError({.source = name}, "a CMYK JPEG",
                    "gray or RGB: convert it (mogrify -colorspace sRGB), since its colours need a profile");
  }
  return header;
}

// The smallest scale, in eighths, at which the image still covers `least`. Those that TurboJPEG has vector code for.
tjscalingfactor scale_for(ImageSize size, ImageSize least) {
  for (const tjscalingfactor scale : {tjscalingfactor{1, 8}, tjscalingfactor{1, 4}, tjscalingfactor{1, 2}}) {
    const int64_t height = TJSCALED(size.height, scale);
    const int64_t width = TJSCALED(size.width, scale);
    if (height >= least.height && width >= least.width) return scale;
  }
  return {1, 1};
}

// Whether coefficients of the whole image are held until its last scan: by the frame header, marker SOF2.
bool is_progressive(std::span<const std::byte> file) {
  const auto at = [&](size_t i) { return std::to_integer<size_t>(file[i]); };
  for (size_t i = 2; i + 3 < file.size() && at(i) == 0xFF;) {
    if (at(i + 1) == 0xC2) return true;
    if (at(i + 1) == 0xDA || at(i + 1) == 0xC0) return false;
    i += 2 + (at(i + 2) << 8) + at(i + 3);
  }
  return false;
}

constexpr int64_t kJpegState = 64 * kKiB;  // of TurboJPEG's handle, about

}  // namespace

ImageDecoder::ImageDecoder(int64_t max_image_bytes) : max_image_bytes_(max_image_bytes) {}

ImageDecoder::~ImageDecoder() {
  if (jpeg_ != nullptr) tjDestroy(jpeg_);
}

void* ImageDecoder::jpeg() {
  if (jpeg_ == nullptr) jpeg_ = tjInitDecompress();
  if (jpeg_ == nullptr) throw std::bad_alloc();
  return jpeg_;
}

int64_t ImageDecoder::memory_bytes() const {
  return static_cast<int64_t>(pixels_.capacity() + lines_.capacity() + sums_.capacity() * sizeof(uint16_t)) +
         (jpeg_ == nullptr ? 0 : kJpegState);
}

ImageSize ImageDecoder::size_of(std::span<const std::byte> file, const std::string& name) {
  if (is_jpeg(file)) return read_jpeg_header(jpeg(), file, name).size;
  if (is_png(file)) return png_size(file, name);
  fail_unknown(file, name);
}

int64_t ImageDecoder::memory_for(std::span<const std::byte> file, const std::string& name, int64_t channels,
                                 ImageSize least) {
  constexpr int64_t kLineBytes = 3;    // a byte and its sum, for each element of a row
  constexpr int64_t kCoefficient = 2;  // bytes
  ImageSize size = size_of(file, name);
  int64_t bytes = 0;
  if (is_jpeg(file)) {
    if (is_progressive(file)) bytes += kCoefficient * 3 * size.height * size.width;
    const tjscalingfactor scale = scale_for(size, least);
    size = {TJSCALED(size.height, scale), TJSCALED(size.width, scale)};
    bytes += kJpegState;
  }
  return bytes + std::min(max_image_bytes_, size.height * size.width * channels) + kLineBytes * size.width * channels;
}

std::span<std::byte> ImageDecoder::pixels_for(const std::string& name, ImageSize size, int64_t channels) {
  const auto bytes = checked_multiply(size.height * size.width, channels);  // sides have 31 bits
  if (!bytes || *bytes > max_image_bytes_) {
    throw DataError({.source = name}, fmt::format("an image of {} x {}", size.width, size.height),
                    fmt::format("at most {} decoded: resize it, or raise the limit", format_bytes(max_image_bytes_)));
  }
  if (pixels_.size() < static_cast<size_t>(*bytes)) pixels_ = std::vector<std::byte>(static_cast<size_t>(*bytes));
  return std::span(pixels_).first(static_cast<size_t>(*bytes));
}

ImageDecoder::Pixels ImageDecoder::decode_jpeg(std::span<const std::byte> file, const std::string& name,
                                               int64_t channels, ImageSize least) {
  const JpegHeader header = read_jpeg_header(jpeg(), file, name);
  const tjscalingfactor scale = scale_for(header.size, least);
  const ImageSize size{TJSCALED(header.size.height, scale), TJSCALED(header.size.width, scale)};
  const auto into = pixels_for(name, size, channels);
  if (tjDecompress2(jpeg_, chars_of(file), file.size(), reinterpret_cast<unsigned char*>(into.data()),
                    static_cast<int>(size.width), 0, static_cast<int>(size.height),
                    channels == 1 ? TJPF_GRAY : TJPF_RGB, TJFLAG_STOPONWARNING) != 0) {
    throw DataError({.source = name}, fmt::format("truncated or corrupt JPEG: {}", tjGetErrorStr2(jpeg_)));
  }
  return {into, size};
}

ImageDecoder::Pixels ImageDecoder::decode_png(std::span<const std::byte> file, const std::string& name,
                                              int64_t channels) {
  const ImageSize size = png_size(file, name);
  const auto into = pixels_for(name, size, channels);
  png_decode(file, name, channels, size, into);
  return {into, size};
}

ImageDecoder::Pixels ImageDecoder::decode_pixels(std::span<const std::byte> file, const std::string& name,
                                                 int64_t channels, ImageSize least) {
  if (is_jpeg(file)) return decode_jpeg(file, name, channels, least);
  if (is_png(file)) return decode_png(file, name, channels);
  fail_unknown(file, name);
}

void ImageDecoder::decode(std::span<const std::byte> file, const std::string& name, int64_t channels, ImageSize size,
                          std::span<std::byte> into) {
  const Pixels pixels = decode_pixels(file, name, channels, size);
  resize_middle(pixels.bytes, pixels.size, channels, into, size, sums_, lines_);
}

std::span<const std::byte> ImageDecoder::decode_whole(std::span<const std::byte> file, const std::string& name,
                                                      int64_t channels, ImageSize& size) {
  const Pixels pixels = decode_pixels(file, name, channels, {INT32_MAX, INT32_MAX});
  size = pixels.size;
  return pixels.bytes;
}

}  // namespace plimsoll::train::data
