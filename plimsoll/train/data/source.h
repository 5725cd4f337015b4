// A Source gives samples by their index. Samples are read when they are asked for, out of mapped files or by decoding,
// so a source takes memory that does not grow with the bytes of its files. All reads are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plimsoll/base/error.h"
#include "plimsoll/base/spec.h"

namespace plimsoll::train::data {

// A sample that cannot be read: a truncated image, a label out of range, a file that vanished. Names the file and the
// place in it. A pipeline skips it or ends with it, as its user chose.
class DataError : public InputError {
 public:
  using InputError::InputError;
};

// One tensor of every sample, in the dtype that the source stores. What it is converted to, and how, is the business of
// the batch that a program reads (pipeline.h): a byte of a pixel stays one until then.
struct Field {
  std::string name;  // of the program's input: "x", "tokens", "target"
  TensorSpec spec;   // of one sample, without the dimension of the batch
  // A program's floating-point input gets value * scale + offset, by the channel (dimension 0 of the sample) where
  // there are as many as channels, else by the one there is. Empty: the value.
  std::vector<float> scale = {};
  std::vector<float> offset = {};
};

// Memory for the fields of one sample, in their order, each as large as its spec says.
using SampleMemory = std::span<const std::span<std::byte>>;

class Source {
 public:
  virtual ~Source() = default;

  virtual int64_t size() const = 0;  // samples
  virtual const std::vector<Field>& fields() const = 0;

  // Writes sample `index`, 0 to size() - 1. `draw` is random bits for sources that vary their samples (crop, flip): the
  // same bits give the same sample. DataError when it cannot be read.
  virtual void read(int64_t index, uint64_t draw, SampleMemory into) const = 0;

  // Where sample `index` is from, for people: "cats/7.jpg", "x.npy, row 7".
  virtual std::string name(int64_t index) const = 0;

  // What the source itself takes on the heap at present, buffers of reads in progress included. Pages of mapped files
  // are the kernel's, which takes them back when memory is short: they do not count.
  virtual int64_t memory_bytes() const = 0;

  // About what each thread that reads takes beside that while it does: decoders, by the headers of some samples.
  virtual int64_t reader_bytes() const { return 0; }

  // One line: "60,000 samples of u8[1,28,28] and i64[] from train-images-idx3-ubyte".
  virtual std::string describe() const = 0;
};

int64_t sample_bytes(const std::vector<Field>& fields);  // of all fields together

}  // namespace plimsoll::train::data
