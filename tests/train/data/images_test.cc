#include "plimsoll/train/data/images.h"

#include <gtest/gtest.h>

#include "plimsoll/train/data/image.h"
#include "plimsoll/train/data/open.h"
#include "plimsoll/train/data/pipeline.h"
#include "tests/train/data/made_files.h"

namespace plimsoll::train::data {
namespace {

std::vector<uint8_t> decode(const std::string& file, int64_t channels, ImageSize size) {
  std::vector<uint8_t> pixels(static_cast<size_t>(channels * size.height * size.width));
  ImageDecoder decoder(1 << 24);
  decoder.decode(std::as_bytes(std::span(file)), "a.file", channels, size, std::as_writable_bytes(std::span(pixels)));
  return pixels;
}

std::string why(const std::string& file, int64_t max_bytes = 1 << 24) {
  std::vector<std::byte> pixels(3 * 8 * 8);
  ImageDecoder decoder(max_bytes);
  return message_of<DataError>([&] { decoder.decode(std::as_bytes(std::span(file)), "a.file", 3, {8, 8}, pixels); });
}

TEST(Images, ReadsAFolderOfClasses) {
  const Folder folder;
  folder.write("dogs/2.jpg", jpeg_of(16, 16, plain_pixels(16, 16, {200, 10, 30})));
  folder.write("cats/b.PNG", png_of(16, 16, 8, PNG_COLOR_TYPE_GRAY, plain_pixels(16, 16, {90})));
  folder.write("cats/notes.txt", "no image");
  folder.write("empty/notes.txt", "no image");
  const auto source = open(folder.path());
  EXPECT_EQ(source->size(), 2);
  EXPECT_EQ(source->fields()[0].spec.text(), "u8[3,16,16]");
  EXPECT_TRUE(has(source->describe(), "of 2 classes"));
  const auto cat = read_sample(*source, 0);
  EXPECT_TRUE(all_are(values_of<uint8_t>(cat[0]), 90));
  EXPECT_EQ(values_of<int64_t>(cat[1]), (std::vector<int64_t>{0}));
  const auto dog = read_sample(*source, 1);
  EXPECT_EQ(values_of<int64_t>(dog[1]), (std::vector<int64_t>{1}));
  EXPECT_NEAR(values_of<uint8_t>(dog[0])[0], 200, 3);
  EXPECT_NEAR(values_of<uint8_t>(dog[0])[2 * 256], 30, 3);
  EXPECT_GT(source->memory_bytes(), 16 * 16 * 3);
  EXPECT_LT(source->memory_bytes(), 100'000);
  EXPECT_THROW(open(folder.path(), {.classes = 1}), InputError);
}

// What reading takes is known by headers alone, before it is read.
TEST(Images, ReadersAreBookedBeforeTheyRead) {
  for (const bool is_png : {true, false}) {
    const Folder folder;
    const std::vector<uint8_t> pixels = plain_pixels(400, 300, {200, 10, 30});
    folder.write("a/small.jpg", jpeg_of(16, 16, plain_pixels(16, 16, {200, 10, 30})));
    folder.write("a/truncated.jpg", "");
    folder.write(is_png ? "a/large.png" : "a/large.jpg",
                 is_png ? png_of(400, 300, 8, PNG_COLOR_TYPE_RGB, pixels) : jpeg_of(400, 300, pixels));
    const auto source = open(folder.path(), {.height = 32, .width = 32});
    const int64_t resting = source->memory_bytes();
    read_sample(*source, 0);
    EXPECT_GT(source->memory_bytes(), resting);
    EXPECT_GE(source->reader_bytes(), source->memory_bytes() - resting) << (is_png ? "png" : "jpg");
    EXPECT_LE(source->reader_bytes(), 2 * (source->memory_bytes() - resting) + 64 * 1024);
  }
}

TEST(Images, BuffersLeaveRoomForReaders) {
  const Folder folder;
  for (int i = 0; i < 24; ++i) {
    folder.write("a/" + std::to_string(i) + ".png",
                 png_of(500, 400, 8, PNG_COLOR_TYPE_RGB, plain_pixels(500, 400, {200, 10, 30})));
  }
  Pipeline pipeline(open(folder.path(), {.height = 64, .width = 64}), {.batch = 4, .workers = 2, .prefetch = 6});
  EXPECT_GE(pipeline.reading_bytes(), 3 * 500 * 400 * 3) << "two workers and the caller";
  pipeline.set_max_bytes(pipeline.least_bytes() + pipeline.reading_bytes() + pipeline.batch_bytes());
  while (pipeline.next()) continue;
  EXPECT_EQ(pipeline.stats().batches, 6);
  EXPECT_LE(pipeline.stats().peak_bytes, pipeline.max_bytes());
}

TEST(Images, TellsTheFileThatVanishedOrIsTruncated) {
  const Folder folder;
  const std::string jpeg = jpeg_of(32, 32, plain_pixels(32, 32, {200, 10, 30}));
  folder.write("a/1.jpg", jpeg);
  const std::string gone = folder.write("a/2.jpg", jpeg);
  folder.write("a/3.jpg", jpeg.substr(0, jpeg.size() / 2));
  folder.write("a/4.jpg", "");
  const auto source = open(folder.path(), {.height = 8, .width = 8});
  std::filesystem::remove(gone);
  read_sample(*source, 0);
  EXPECT_TRUE(has(message_of<DataError>([&] { read_sample(*source, 1); }), "2.jpg: cannot be opened: No such"));
  EXPECT_TRUE(has(message_of<DataError>([&] { read_sample(*source, 2); }), "3.jpg: "));
  EXPECT_TRUE(has(message_of<DataError>([&] { read_sample(*source, 3); }), "an empty file"));
}

TEST(Images, RefusesWhatItCannotShow) {
  const auto cmyk = jpeg_of(16, 16, plain_pixels(16, 16, {1, 2, 3, 4}), TJPF_CMYK);
  EXPECT_TRUE(has(why(cmyk), "a CMYK JPEG, expected gray or RGB"));
  EXPECT_TRUE(has(why("GIF89a"), "found no image, expected a JPEG or a PNG"));
  const std::string png = png_of(16, 16, 8, PNG_COLOR_TYPE_RGB, plain_pixels(16, 16, {1, 2, 3}));
  EXPECT_TRUE(has(why(png.substr(0, png.size() - 20)), "truncated or corrupt PNG"));
  EXPECT_TRUE(has(why(png.substr(0, 20)), "truncated or corrupt PNG"));
  EXPECT_TRUE(has(why(png, 100), "an image of 16 x 16, expected at most 100 B decoded"));
  const std::string jpeg = jpeg_of(16, 16, plain_pixels(16, 16, {1, 2, 3}));
  EXPECT_TRUE(has(why(jpeg.substr(0, 10)), "JPEG"));
  EXPECT_TRUE(has(why(jpeg, 100), "an image of 8 x 8"));
}

TEST(Images, ReadsEveryKindOfPng) {
  std::vector<uint8_t> deep;  // 16 bits: 0x40ff, which is 0x41 to the nearest
  for (int i = 0; i < 8 * 8; ++i) deep.insert(deep.end(), {0x40, 0xff});
  EXPECT_TRUE(all_are(decode(png_of(8, 8, 16, PNG_COLOR_TYPE_GRAY, deep), 1, {8, 8}), 0x41));
  const std::vector<png_color> palette = {{1, 2, 3}, {60, 70, 80}};
  const auto indexed = png_of(8, 8, 8, PNG_COLOR_TYPE_PALETTE, plain_pixels(8, 8, {1}), palette);
  const auto colours = decode(indexed, 3, {8, 8});
  EXPECT_EQ(colours[0], 60);
  EXPECT_EQ(colours[64], 70);
  EXPECT_EQ(colours[128], 80);
  const auto clear = png_of(8, 8, 8, PNG_COLOR_TYPE_RGB_ALPHA, plain_pixels(8, 8, {50, 50, 50, 0}));
  EXPECT_TRUE(all_are(decode(clear, 1, {8, 8}), 50));
  const auto woven = png_of(8, 8, 8, PNG_COLOR_TYPE_RGB, plain_pixels(8, 8, {9, 9, 9}), {}, PNG_INTERLACE_ADAM7);
  EXPECT_TRUE(all_are(decode(woven, 3, {8, 8}), 9));
  std::vector<uint8_t> bits(8, 0xAA);  // one bit a pixel
  EXPECT_EQ(decode(png_of(8, 8, 1, PNG_COLOR_TYPE_GRAY, bits), 1, {8, 8})[0], 255);
}

// A ramp from left to right keeps its values at their places when it is made smaller, and the middle is taken.
TEST(Images, ResizesTheMiddle) {
  std::vector<uint8_t> ramp;
  for (int y = 0; y < 40; ++y) {
    for (int x = 0; x < 120; ++x) ramp.push_back(static_cast<uint8_t>(2 * x));
  }
  for (const bool is_jpeg : {false, true}) {
    const std::string file =
        is_jpeg ? jpeg_of(40, 120, ramp, TJPF_GRAY) : png_of(40, 120, 8, PNG_COLOR_TYPE_GRAY, ramp);
    for (const int64_t size : {3, 10, 20, 40, 80}) {
      const auto small = decode(file, 1, {size, size});
      for (int64_t x = 0; x < size; ++x) {
        const double at = 40 + (static_cast<double>(x) + 0.5) * 40 / static_cast<double>(size) - 0.5;
        EXPECT_NEAR(small[static_cast<size_t>(x)], 2 * at, is_jpeg ? 4 : 2) << size << " at " << x;
        EXPECT_EQ(small[static_cast<size_t>(x)], small[static_cast<size_t>((size - 1) * size + x)]);
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::train::data
