// A folder of images, one class for each folder in it.
#pragma once

#include <memory>
#include <string>

#include "plimsoll/train/data/open.h"
#include "plimsoll/train/data/source.h"

namespace plimsoll::train::data {

// Classes are the names of the folders in order, files are in order of their names; other files are passed over. Takes
// the bytes of the names, one of each. Where no size is given, that of the first image.
std::unique_ptr<Source> open_images(const std::string& folder, const OpenOptions& options);

// Whether there is a folder with an image in it.
bool is_image_folder(const std::string& folder);

}  // namespace plimsoll::train::data
