// What is known of a value before the program is bound: its dtype and its shape as a list of Dims.
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string>

#include "plimsoll/base/dtype.h"
#include "plimsoll/base/shape.h"
#include "plimsoll/base/spec.h"
#include "plimsoll/program/dim.h"

namespace plimsoll::program {

// Up to Shape::kMaxRank Dims: a shape, strides, or a list of numbers among the attributes of an op. Held in place.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<Dim> dims) : Dims(std::span(dims.begin(), dims.size())) {}
  explicit Dims(std::span<const Dim> dims);  // ArgumentError for more than fit
  explicit Dims(const Shape& shape);

  int rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  const Dim* begin() const { return dims_.data(); }
  const Dim* end() const { return dims_.data() + rank_; }
  Dim operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  Dim& operator[](int axis) { return dims_[static_cast<size_t>(axis)]; }
  Dim back(int from_end = 1) const { return (*this)[rank_ - from_end]; }
  void push_back(Dim dim);  // ArgumentError when full

  Dim elements() const;  // the product; 1 for none
  bool is_constant() const;
  bool is_negative() const;  // some Dim is a number below zero
  Shape shape() const;       // ArgumentError when a Dim is unbound or negative
  Dims bind(const Bindings& bindings) const;
  std::string text() const;  // "[batch,3,224,224]"

  bool operator==(const Dims&) const = default;

 private:
  std::array<Dim, Shape::kMaxRank> dims_{};  // zero past rank_, so that == is member-wise
  int rank_ = 0;
};

// Strides, in elements, of an array of this shape laid out in row-major order without gaps.
Dims row_major(const Dims& shape);

struct Type {
  DType dtype = DType::f32;
  Dims shape;

  Dim bytes() const;
  TensorSpec spec() const;   // ArgumentError when unbound
  std::string text() const;  // "f32[batch,3]"

  bool operator==(const Type&) const = default;
};

}  // namespace plimsoll::program
