// The sources of open() beside NumPy's (npy.h) and images (images.h). Each opener throws as open() says.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plimsoll/train/data/open.h"
#include "plimsoll/train/data/source.h"

namespace plimsoll::train::data {

// The values of an IDX file (MNIST's format): bytes, of up to three dimensions.
struct IdxArray {
  TensorSpec spec;  // u8 or i8, rows included
  std::span<const std::byte> values;
};
IdxArray parse_idx(std::span<const std::byte> bytes, const std::string& file);

// Gzip by its first bytes is inflated onto the heap. Samples of two dimensions get one channel: x is u8[1,28,28].
std::unique_ptr<Source> open_idx(const std::string& images, const std::string& labels, const OpenOptions& options);

// CIFAR's binaries, one after the other: records of `label_bytes` (1 or 2, of which the last is the label) and 3 x 32 x
// 32 pixels.
std::unique_ptr<Source> open_cifar(const std::vector<std::string>& files, int64_t label_bytes,
                                   const OpenOptions& options);

// Tokens of `width` bytes (1, 2 or 4); of a text its bytes. Sample i is tokens i * sequence on, its target the same one
// further.
std::unique_ptr<Source> open_tokens(const std::string& path, int width, const OpenOptions& options);

// Lines of a text as sequences of their bytes, with the end of the line as the last target: padded at the end, where
// targets are -100, which losses ignore. Empty lines are passed over. Takes 8 bytes a line.
std::unique_ptr<Source> open_lines(const std::string& path, const OpenOptions& options);

// Numbers, one sample a line: x is f32 of all columns but the label's, target i64 where the first thousand labels are
// integers, else f32. Cells may be quoted; a first line that has text is a header. Lines are found again through the
// place of every 16th: half a byte a sample.
std::unique_ptr<Source> open_csv(const std::string& path, const OpenOptions& options);
// The same of a text that stays where it is, for tests and fuzzing.
std::unique_ptr<Source> csv_source(std::string_view text, const std::string& file, std::shared_ptr<const void> owner,
                                   const OpenOptions& options);

}  // namespace plimsoll::train::data
