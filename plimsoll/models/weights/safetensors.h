// Safetensors: a header of JSON that names tensors and says where their bytes are, and then the bytes. Read by memory
// map, so that a file takes no memory but what is being looked at.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plimsoll/base/dtype.h"
#include "plimsoll/base/mapped_file.h"
#include "plimsoll/base/shape.h"

namespace plimsoll::models {

// One tensor of a file, which it holds on to.
struct StoredTensor {
  std::string name;
  std::string dtype;  // as the file has it: "F32", "BF16"
  Shape shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const MappedFile> file;
  std::shared_ptr<const std::vector<std::byte>> inflated = {};  // what `bytes` are of, where the file has them deflated

  int64_t elements() const { return shape.elements(); }
  // Elements from `first` on as reals. UnsupportedError for a dtype that is not known.
  void read(std::span<float> into, int64_t first) const;
};
using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

// A .safetensors file, or the index of several (model.safetensors.index.json), whose files stand beside it. InputError
// for headers that are no JSON or nested deeply, for sizes that do not match and for bytes that overlap or lie outside.
StoredTensors read_safetensors(const std::string& path);

// The texts that a file holds beside its tensors.
using StoredTexts = std::map<std::string, std::string, std::less<>>;
// A file as its header says, whose bytes are not looked at.
struct StoredFile {
  StoredTensors tensors;
  StoredTexts texts;
  int64_t data_offset = 0;  // in the file, of the first byte of tensors
};
// Of one .safetensors file. InputError as above.
StoredFile read_stored_file(const std::string& path);

// What a header says of a tensor; tensors lie one after the other, in their order.
struct StoredSpec {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  int64_t bytes() const { return shape.elements() * element_bytes(dtype); }
};
// The bytes of a file up to the first tensor.
std::string stored_header(const std::vector<StoredSpec>& tensors, const StoredTexts& texts);
// As the format names it: "F32", "U8".
std::string_view stored_dtype(DType dtype);

// What is to be written: `read` fills so many elements of f32 from the `first` on.
struct TensorToStore {
  std::string name;
  Shape shape;
  std::function<void(std::span<float> into, int64_t first)> read;
};
// All of f32. The file appears under its name once it is whole. Holds a megabyte of a tensor at a time.
void write_safetensors(const std::string& path, const std::vector<TensorToStore>& tensors);

}  // namespace plimsoll::models
