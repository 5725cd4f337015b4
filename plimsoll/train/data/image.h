// Images of JPEG and PNG files as bytes of pixels: decoded, cut to an aspect ratio, resized.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace plimsoll::train::data {

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const ImageSize&) const = default;
};

// Decodes one image at a time into memory that it keeps. Not thread-safe.
class ImageDecoder {
 public:
  explicit ImageDecoder(int64_t max_image_bytes);
  ~ImageDecoder();
  ImageDecoder(const ImageDecoder&) = delete;
  ImageDecoder& operator=(const ImageDecoder&) = delete;

  // The size that the file's header tells. DataError as below.
  ImageSize size_of(std::span<const std::byte> file, const std::string& name);

  // Reads an image of 1 channel (gray) or 3 (RGB) and writes it by channel, row and column: channels * height * width
  // bytes. It is scaled so that it covers `size`, and the middle is taken; the coefficients of a JPEG are decoded at
  // the smallest scale that is large enough. 16-bit PNGs lose their lower bits, palettes become colours, transparency
  // is dropped. DataError, with the name, for what is neither JPEG nor PNG, truncated or corrupt, CMYK, or larger
  // decoded than max_image_bytes.
  void decode(std::span<const std::byte> file, const std::string& name, int64_t channels, ImageSize size,
              std::span<std::byte> into);

  // What that takes beside the result, by the header of the file. DataError as above.
  int64_t memory_for(std::span<const std::byte> file, const std::string& name, int64_t channels, ImageSize size);

  // Decoded as it is, by row, column and channel; for measuring.
  std::span<const std::byte> decode_whole(std::span<const std::byte> file, const std::string& name, int64_t channels,
                                          ImageSize& size);

  int64_t memory_bytes() const;

 private:
  struct Pixels {
    std::span<const std::byte> bytes;  // by row, column and channel
    ImageSize size;
  };
  Pixels decode_pixels(std::span<const std::byte> file, const std::string& name, int64_t channels, ImageSize least);
  Pixels decode_jpeg(std::span<const std::byte> file, const std::string& name, int64_t channels, ImageSize least);
  Pixels decode_png(std::span<const std::byte> file, const std::string& name, int64_t channels);
  std::span<std::byte> pixels_for(const std::string& name, ImageSize size, int64_t channels);
  void* jpeg();

  int64_t max_image_bytes_;
  void* jpeg_ = nullptr;  // TurboJPEG's handle
  std::vector<std::byte> pixels_;
  std::vector<uint16_t> sums_;    // of the resizing
  std::vector<std::byte> lines_;  // of the resizing
};

// Resizes pixels (by row, column, channel) to planes (by channel, row, column), by triangles as wide as the ratio of
// the sizes, of the largest part in the middle that has the aspect ratio of `size`. `sums` and `lines` are scratch.
void resize_middle(std::span<const std::byte> from, ImageSize from_size, int64_t channels, std::span<std::byte> into,
                   ImageSize size, std::vector<uint16_t>& sums, std::vector<std::byte>& lines);

}  // namespace plimsoll::train::data
