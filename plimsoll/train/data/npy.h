// NumPy's files: .npy in place (memory-mapped), .npz as a zip archive of them. Readers of bytes that others wrote:
// every size is checked against what is there before it is used.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plimsoll/train/data/open.h"
#include "plimsoll/train/data/source.h"

namespace plimsoll::train::data {

struct NpyArray {
  TensorSpec spec = {};  // rows included
  std::span<const std::byte> values = {};
  int64_t offset = 0;                      // of the values in the file
  std::shared_ptr<const void> owner = {};  // of the bytes, where the reader of an archive made them
  int64_t owned_bytes = 0;
};

// The array in the bytes of a .npy file. InputError, with the file's name and the byte, for what is none, for dtypes
// that Plimsoll does not have (it names those it has), Fortran's order, other machines' order of bytes, and less data
// than the shape says.
NpyArray parse_npy(std::span<const std::byte> bytes, const std::string& file);

// The arrays of a .npz by their names, without the ".npy": those that are stored are parts of `bytes`, deflated ones
// are inflated onto the heap. InputError as above, also for archives that are cut short or name bytes they do not have.
std::map<std::string, NpyArray> parse_npz(std::span<const std::byte> bytes, const std::string& file);

std::unique_ptr<Source> open_npy(const std::string& x, const std::string& y, const OpenOptions& options);
std::unique_ptr<Source> open_npz(const std::string& path, const OpenOptions& options);

}  // namespace plimsoll::train::data
