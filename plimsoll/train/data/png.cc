#include "plimsoll/train/data/png.h"

#include <fmt/format.h>
#include <png.h>

#include <csetjmp>
#include <cstring>
#include <vector>

#include "plimsoll/train/data/source.h"

namespace plimsoll::train::data {
namespace {

// What libpng's callbacks see. libpng leaves through longjmp: nothing between it and setjmp has a destructor.
struct State {
  std::span<const std::byte> file = {};
  size_t at = 0;
  char message[96] = {};
  std::jmp_buf failed = {};
};

void read_some(png_structp png, png_bytep into, size_t count) {
  auto* state = static_cast<State*>(png_get_io_ptr(png));
  if (count > state->file.size() - state->at) png_error(png, "the file is cut short");
  std::memcpy(into, state->file.data() + state->at, count);
  state->at += count;
}

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* state = static_cast<State*>(png_get_error_ptr(png));
  std::strncpy(state->message, message, sizeof state->message - 1);
  std::longjmp(state->failed, 1);
}

void on_warning(png_structp /*png*/, png_const_charp /*message*/) {}

class Reader {
 public:
  explicit Reader(State& state) : png_(png_create_read_struct(PNG_LIBPNG_VER_STRING, &state, on_error, on_warning)) {
    if (png_ == nullptr) throw std::bad_alloc();
    info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
    png_set_read_fn(png_, &state, read_some);
  }
  ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  png_structp png() const { return png_; }
  png_infop info() const { return info_; }

 private:
  png_structp png_;
  png_infop info_ = nullptr;
};

// False when libpng failed; the state has its message.
bool read_header(State& state, const Reader& reader) {
  if (setjmp(state.failed) != 0) return false;
  png_read_info(reader.png(), reader.info());
  return true;
}

void convert_to(png_structp png, png_infop info, int64_t channels) {
  const int colours = png_get_color_type(png, info);
  png_set_expand(png);  // palettes, gray of fewer than 8 bits
  png_set_scale_16(png);
  png_set_strip_alpha(png);
  const bool is_gray = (colours & PNG_COLOR_MASK_COLOR) == 0;
  if (is_gray && channels == 3) png_set_gray_to_rgb(png);
  if (!is_gray && channels == 1) png_set_rgb_to_gray_fixed(png, PNG_ERROR_ACTION_NONE, 29900, 58700);  // as JPEG's Y
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
}

bool read_pixels(State& state, const Reader& reader, int64_t channels, png_bytep* rows, size_t row_bytes) {
  if (setjmp(state.failed) != 0) return false;
  convert_to(reader.png(), reader.info(), channels);
  if (png_get_rowbytes(reader.png(), reader.info()) != row_bytes) png_error(reader.png(), "rows of another length");
  png_read_image(reader.png(), rows);
  png_read_end(reader.png(), nullptr);
  return true;
}

[[noreturn]] void fail(const State& state, const std::string& name) {
  throw DataError({.source = name, .offset = static_cast<int64_t>(state.at)},
                  fmt::format("truncated or corrupt PNG: {}", state.message));
}

}  // namespace

ImageSize png_size(std::span<const std::byte> file, const std::string& name) {
  State state{.file = file};
  const Reader reader(state);
  if (!read_header(state, reader)) fail(state, name);
  return {png_get_image_height(reader.png(), reader.info()), png_get_image_width(reader.png(), reader.info())};
}

void png_decode(std::span<const std::byte> file, const std::string& name, int64_t channels, ImageSize size,
                std::span<std::byte> into) {
  State state{.file = file};
  const Reader reader(state);
  if (!read_header(state, reader)) fail(state, name);
  const auto row_bytes = static_cast<size_t>(size.width * channels);
  std::vector<png_bytep> rows;
  for (int64_t y = 0; y < size.height; ++y) {
    rows.push_back(reinterpret_cast<png_bytep>(into.data()) + static_cast<size_t>(y) * row_bytes);
  }
  if (!read_pixels(state, reader, channels, rows.data(), row_bytes)) fail(state, name);
}

}  // namespace plimsoll::train::data
