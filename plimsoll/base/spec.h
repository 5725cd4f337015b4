// A TensorSpec is a dtype and a shape: so many bytes.
#pragma once

#include <cstdint>
#include <string>

#include "plimsoll/base/dtype.h"
#include "plimsoll/base/shape.h"

namespace plimsoll {

struct TensorSpec {
  DType dtype = DType::f32;
  Shape shape;

  // Elements times element size; ArgumentError when that does not fit in int64_t.
  int64_t bytes() const;

  std::string text() const;  // "f32[384,192]"

  bool operator==(const TensorSpec&) const = default;
};

}  // namespace plimsoll
