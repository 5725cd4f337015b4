// PNG files by libpng, whose errors become DataError with the file's name.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "plimsoll/train/data/image.h"

namespace plimsoll::train::data {

ImageSize png_size(std::span<const std::byte> file, const std::string& name);

// All pixels by row, column and channel (1 or 3), 8 bits each; `size` is png_size's.
void png_decode(std::span<const std::byte> file, const std::string& name, int64_t channels, ImageSize size,
                std::span<std::byte> into);

}  // namespace plimsoll::train::data
