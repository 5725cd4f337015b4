// Names of uses of ops, for caches: equal for equal uses, and quick to make.
#pragma once

#include <span>
#include <string>

#include "plimsoll/kernels/kernel.h"
#include "plimsoll/program/op.h"

namespace plimsoll::eager {

class Key {
 public:
  Key(const program::OpDef& def, std::span<const program::Attribute> attributes);

  void add(int64_t number) { bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number)); }
  void add(const kernels::TensorDesc& tensor);  // dtype, shape and strides
  void add(const program::Type& type);

  std::string take() && { return std::move(bytes_); }

 private:
  void add(const program::Attribute& attribute);

  std::string bytes_;
};

}  // namespace plimsoll::eager
