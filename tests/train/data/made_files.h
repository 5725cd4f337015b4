// Files that the tests of the data pipeline read: a folder of its own for each test, and writers of small files.
#pragma once

#include <gtest/gtest.h>
#include <png.h>
#include <turbojpeg.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "plimsoll/train/data/source.h"
#include "tests/memory/temp_folder.h"

namespace plimsoll::train::data {

class Folder : public TempFolder {
 public:
  // The path of the file.
  std::string write(const std::string& name, std::string_view bytes) const {
    TempFolder::write(name, std::string(bytes));
    return path() + "/" + name;
  }
};

template <class T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inline std::string npy_of(const std::string& descr, const std::string& shape, std::string_view values,
                          const std::string& fortran = "False") {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xFF);
  file += static_cast<char>(header.size() >> 8);
  return file + header + std::string(values);
}

inline std::string idx_of(const std::vector<int>& dims, std::string_view values, char type = 0x08) {
  std::string file = {0, 0, type, static_cast<char>(dims.size())};
  for (const int dim : dims) {
    for (const int shift : {24, 16, 8, 0}) file += static_cast<char>(dim >> shift & 0xFF);
  }
  return file + std::string(values);
}

// An image whose pixels are all of one colour.
inline std::vector<uint8_t> plain_pixels(int height, int width, std::vector<uint8_t> colour) {
  std::vector<uint8_t> pixels;
  for (int i = 0; i < height * width; ++i) pixels.insert(pixels.end(), colour.begin(), colour.end());
  return pixels;
}

inline std::string jpeg_of(int height, int width, const std::vector<uint8_t>& pixels, int format = TJPF_RGB) {
  const tjhandle jpeg = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): TurboJPEG's type
  const int sampling = format == TJPF_GRAY ? TJSAMP_GRAY : TJSAMP_444;
  EXPECT_EQ(tjCompress2(jpeg, pixels.data(), width, 0, height, format, &bytes, &size, sampling, 95, 0), 0);
  std::string file(reinterpret_cast<char*>(bytes), size);
  tjFree(bytes);
  tjDestroy(jpeg);
  return file;
}

// `rows` as libpng takes them: 16-bit values with the high byte first.
inline std::string png_of(int height, int width, int bits, int colours, const std::vector<uint8_t>& pixels,
                          const std::vector<png_color>& palette = {}, int interlace = PNG_INTERLACE_NONE) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  const auto append = [](png_structp from, png_bytep bytes, size_t count) {
    static_cast<std::string*>(png_get_io_ptr(from))->append(reinterpret_cast<char*>(bytes), count);
  };
  png_set_write_fn(png, &file, append, nullptr);
  png_set_IHDR(png, info, static_cast<uint32_t>(width), static_cast<uint32_t>(height), bits, colours, interlace,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!palette.empty()) png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  png_write_info(png, info);
  std::vector<png_bytep> rows;
  const size_t stride = pixels.size() / static_cast<size_t>(height);
  for (int y = 0; y < height; ++y)
    rows.push_back(const_cast<png_bytep>(pixels.data()) + static_cast<size_t>(y) * stride);
  png_write_image(png, rows.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

// All fields of one sample.
inline std::vector<std::vector<std::byte>> read_sample(const Source& source, int64_t index, uint64_t draw = 0) {
  std::vector<std::vector<std::byte>> sample;
  std::vector<std::span<std::byte>> into;
  for (const Field& field : source.fields()) sample.emplace_back(static_cast<size_t>(field.spec.bytes()));
  for (auto& field : sample) into.emplace_back(field);
  source.read(index, draw, into);
  return sample;
}

template <class T>
std::vector<T> values_of(const std::vector<std::byte>& bytes) {
  const auto* first = reinterpret_cast<const T*>(bytes.data());
  return {first, first + bytes.size() / sizeof(T)};
}

inline testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << text << "' has no '" << part << "'";
}

inline testing::AssertionResult all_are(const std::vector<uint8_t>& values, int wanted) {
  for (const uint8_t value : values) {
    if (value != wanted) return testing::AssertionFailure() << int{value} << " is not " << wanted;
  }
  return testing::AssertionSuccess();
}

// The message of what `run` throws, which must be an E.
template <class E, class F>
std::string message_of(const F& run) {
  try {
    run();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace plimsoll::train::data
