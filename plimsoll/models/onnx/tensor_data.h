// The elements of a tensor that stands in an ONNX file, or beside it as external data.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plimsoll/base/dtype.h"
#include "plimsoll/base/shape.h"
#include "plimsoll/models/init.h"
#include "plimsoll/models/onnx/file.h"

namespace plimsoll::models::onnx_import {

// What an element is to us: reals are computed in the model's precision, all integers in i64.
enum class ElementKind : uint8_t { real, integer, boolean };

// InputError for a type that has no numbers (strings) or that is not known.
ElementKind element_kind(const ModelFile& file, int element_type, std::string_view what);
std::string_view element_type_name(int element_type);  // "FLOAT", as ONNX has it; "type 99" for others
int64_t element_bits(int element_type);                // 0: not known

class TensorData {
 public:
  // Holds on to the file. InputError for a shape that makes no sense and for bytes that do not match it.
  TensorData(std::shared_ptr<const ModelFile> file, const TensorProto& proto);

  const std::string& name() const { return proto_->name(); }
  int element_type() const { return proto_->data_type(); }
  ElementKind kind() const { return kind_; }
  const Shape& shape() const { return shape_; }
  int64_t elements() const { return elements_; }
  const void* key() const { return proto_; }  // the same for the same tensor of a file

  // Whether the elements are there: not so where external data is missing.
  bool is_there() const;
  bool is_external() const;

  // From element `first` on. InputError or SystemError when they are not there.
  void read(std::span<float> into, int64_t first) const { read_into(into, first); }
  void read(std::span<double> into, int64_t first) const { read_into(into, first); }
  void read(std::span<int64_t> into, int64_t first) const { read_into(into, first); }

 private:
  template <class T>
  void read_into(std::span<T> into, int64_t first) const;
  template <class T>
  void read_fields(std::span<T> into, int64_t first) const;
  int64_t field_count() const;
  int64_t stored_bytes() const;
  void check_size() const;

  std::shared_ptr<const ModelFile> file_;
  const TensorProto* proto_;
  ElementKind kind_;
  Shape shape_;
  int64_t elements_ = 0;
};

// As the first values of a parameter.
std::shared_ptr<const GivenValues> given_values(TensorData data);

}  // namespace plimsoll::models::onnx_import
