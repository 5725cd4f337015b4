// The names of dimensions: those of a file, and what they are called here. The samples are `batch`, the tokens
// `sequence`; others keep their names as far as they are names.
#pragma once

#include <map>
#include <string>

#include "plimsoll/models/onnx/file.h"
#include "plimsoll/program/type.h"

namespace plimsoll::models::onnx_import {

class Symbols {
 public:
  // With `batch_is_symbol` the first dimension of all inputs is `batch`, also where the file has the same number in
  // all of them.
  Symbols(const ModelFile& file, bool batch_is_symbol);

  program::Dims dims_of(const ValueInfoProto& input) const;
  // The number that stands where `batch` does; 0: there is none.
  int64_t fixed_batch() const { return fixed_batch_; }

 private:
  program::Dim dim_of(const ValueInfoProto& input, int axis) const;

  std::string file_name_;
  std::map<std::string, std::string> names_;  // in the file: here
  int64_t fixed_batch_ = 0;
};

}  // namespace plimsoll::models::onnx_import
