// Rows of arrays that are in memory or in mapped files, as samples: the source behind .npy, .npz, IDX, CIFAR and
// arrays.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/train/data/open.h"
#include "plimsoll/train/data/source.h"

namespace plimsoll::train::data {

// Row i is the field's bytes at i * stride.
struct Rows {
  Field field = {};
  std::span<const std::byte> bytes = {};
  int64_t stride = 0;  // between rows
  int64_t count = 0;
  std::string file = {};                   // for messages
  std::shared_ptr<const void> owner = {};  // of the bytes; empty: the caller's
  int64_t owned_bytes = 0;                 // on the heap, where the owner has them there
  int64_t offset = 0;                      // of the bytes in the file, for messages
};

// What is checked of every sample as it is read.
struct RowChecks {
  int64_t classes = 0;     // of an integer "target"; 0: not checked
  int64_t vocabulary = 0;  // of integer "tokens"; 0: not checked
  bool finite = true;
};

// InputError when columns have different numbers of rows.
std::unique_ptr<Source> rows_source(std::vector<Rows> columns, const RowChecks& checks);

RowChecks checks_of(const OpenOptions& options);

// Scale and offset that make pixels of 0 to 255 values of 0 to 1, then (value - mean) / std. ArgumentError where mean
// or std have neither one number nor one for each channel, or a std is 0.
void normalise(Field& field, const OpenOptions& options);

// "60,000 samples of u8[1,28,28] and u8[]": the start of a source's describe().
std::string describe_samples(const Source& source);

// Whether all are neither NaN nor infinite: f64, f32, f16 or bf16; true for others.
bool all_finite(DType dtype, std::span<const std::byte> values);
// The first integer that is not in [0, range), if any.
std::optional<int64_t> out_of_range(DType dtype, std::span<const std::byte> values, int64_t range);

}  // namespace plimsoll::train::data
