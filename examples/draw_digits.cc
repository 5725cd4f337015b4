// Draws digits with noise, so that there are images to train on: draw_digits FOLDER [COUNT] writes FOLDER/train/0 to 9
// and FOLDER/test/0 to 9, a tenth of them in test, as PNG files of 28 by 28 grey pixels. The same every time.
#include <fmt/format.h>
#include <png.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <vector>

namespace {

constexpr int kSide = 28;
constexpr int kColumns = 5;
constexpr int kRows = 7;

// A row of five pixels is a number, its first pixel the highest bit.
constexpr uint8_t kGlyphs[10][kRows] = {
    {14, 17, 19, 21, 25, 17, 14}, {4, 12, 4, 4, 4, 4, 14},    {14, 17, 1, 2, 4, 8, 31},   {31, 2, 4, 2, 1, 17, 14},
    {2, 6, 10, 18, 31, 2, 2},     {31, 16, 30, 1, 1, 17, 14}, {6, 8, 16, 30, 17, 17, 14}, {31, 1, 2, 4, 8, 8, 8},
    {14, 17, 17, 14, 17, 17, 14}, {14, 17, 17, 15, 1, 2, 12},
};

double pixel_of(int digit, int row, int column) {
  if (row < 0 || row >= kRows || column < 0 || column >= kColumns) return 0;
  return (kGlyphs[digit][row] >> (kColumns - 1 - column)) & 1;
}

// Between pixels of the glyph, so that edges are smooth.
double ink_at(int digit, double row, double column) {
  const double top = std::floor(row - 0.5);
  const double left = std::floor(column - 0.5);
  const double down = row - 0.5 - top;
  const double right = column - 0.5 - left;
  const auto at = [&](int i, int j) { return pixel_of(digit, static_cast<int>(top) + i, static_cast<int>(left) + j); };
  return (at(0, 0) * (1 - right) + at(0, 1) * right) * (1 - down) + (at(1, 0) * (1 - right) + at(1, 1) * right) * down;
}

using Image = std::vector<uint8_t>;

// Turned, leaning, scaled and moved a little, of some brightness, with noise.
Image draw(int digit, std::mt19937& generator) {
  const auto between = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(generator()) / static_cast<double>(std::mt19937::max());
  };
  const double angle = between(-0.25, 0.25);
  const double lean = between(-0.2, 0.2);
  const double scale = between(2.4, 3.4);  // pixels of the image for one of the glyph
  const double middle_x = kSide / 2.0 + between(-3, 3);
  const double middle_y = kSide / 2.0 + between(-2.5, 2.5);
  const double brightness = between(150, 255);
  Image image(kSide * kSide);
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const double dx = x + 0.5 - middle_x;
      const double dy = y + 0.5 - middle_y;
      const double row = (std::cos(angle) * dy - std::sin(angle) * dx) / scale;
      const double column = (std::sin(angle) * dy + std::cos(angle) * dx) / scale + lean * row;
      const double ink = ink_at(digit, row + kRows / 2.0, column + kColumns / 2.0);
      const double noise = between(-30, 30) + between(-30, 30);
      image[static_cast<size_t>(y * kSide + x)] =
          static_cast<uint8_t>(std::min(255.0, std::max(0.0, ink * brightness + noise)));
    }
  }
  return image;
}

bool write_png(const std::string& path, const Image& image) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = kSide;
  header.height = kSide;
  header.format = PNG_FORMAT_GRAY;
  return png_image_write_to_file(&header, path.c_str(), 0, image.data(), kSide, nullptr) != 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path temporary = std::filesystem::temp_directory_path() / "plimsoll-digits-of-a-test";
  const bool is_test = argc < 2;  // as an example that is run: a few images, which are gone afterwards
  const std::filesystem::path folder = is_test ? temporary : std::filesystem::path(argv[1]);
  const int count = is_test ? 20 : argc > 2 ? std::atoi(argv[2]) : 10000;
  for (const char* part : {"train", "test"}) {
    for (int digit = 0; digit < 10; ++digit) std::filesystem::create_directories(folder / part / std::to_string(digit));
  }
  std::mt19937 generator(1);
  for (int i = 0; i < count; ++i) {
    const int digit = i % 10;
    const char* part = i / 10 % 10 == 9 ? "test" : "train";
    const std::string path = (folder / part / std::to_string(digit) / fmt::format("{:05}.png", i)).string();
    if (write_png(path, draw(digit, generator))) continue;
    fmt::print(stderr, "{} could not be written\n", path);
    return 1;
  }
  fmt::print("{} digits in {}\n", count, folder.string());
  if (is_test) std::filesystem::remove_all(temporary);
  return 0;
}
