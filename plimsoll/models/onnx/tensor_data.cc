#include "plimsoll/models/onnx/tensor_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "plimsoll/base/error.h"
#include "plimsoll/base/half.h"
#include "plimsoll/base/mapped_file.h"
#include "plimsoll/base/spec.h"

namespace plimsoll::models::onnx_import {
namespace {

struct ElementType {
  int type;
  std::string_view name;
  int64_t bits;
  ElementKind kind;
};

constexpr std::array kElementTypes = {
    ElementType{TensorProto::FLOAT, "FLOAT", 32, ElementKind::real},
    ElementType{TensorProto::DOUBLE, "DOUBLE", 64, ElementKind::real},
    ElementType{TensorProto::FLOAT16, "FLOAT16", 16, ElementKind::real},
    ElementType{TensorProto::BFLOAT16, "BFLOAT16", 16, ElementKind::real},
    ElementType{kFloat8E4M3FN, "FLOAT8E4M3FN", 8, ElementKind::real},
    ElementType{kFloat8E4M3FNUZ, "FLOAT8E4M3FNUZ", 8, ElementKind::real},
    ElementType{kFloat8E5M2, "FLOAT8E5M2", 8, ElementKind::real},
    ElementType{kFloat8E5M2FNUZ, "FLOAT8E5M2FNUZ", 8, ElementKind::real},
    ElementType{TensorProto::INT8, "INT8", 8, ElementKind::integer},
    ElementType{TensorProto::UINT8, "UINT8", 8, ElementKind::integer},
    ElementType{TensorProto::INT16, "INT16", 16, ElementKind::integer},
    ElementType{TensorProto::UINT16, "UINT16", 16, ElementKind::integer},
    ElementType{TensorProto::INT32, "INT32", 32, ElementKind::integer},
    ElementType{TensorProto::UINT32, "UINT32", 32, ElementKind::integer},
    ElementType{TensorProto::INT64, "INT64", 64, ElementKind::integer},
    ElementType{TensorProto::UINT64, "UINT64", 64, ElementKind::integer},
    ElementType{kInt4, "INT4", 4, ElementKind::integer},
    ElementType{kUInt4, "UINT4", 4, ElementKind::integer},
    ElementType{TensorProto::BOOL, "BOOL", 8, ElementKind::boolean},
};

const ElementType* find_type(int type) {
  const auto* found = std::find_if(kElementTypes.begin(), kElementTypes.end(),
                                   [&](const ElementType& known) { return known.type == type; });
  return found == kElementTypes.end() ? nullptr : found;
}

template <class From, class T>
void copy_as(const std::byte* bytes, std::span<T> into, int64_t first) {
  for (size_t i = 0; i < into.size(); ++i) {
    From element;
    std::memcpy(&element, bytes + (static_cast<size_t>(first) + i) * sizeof(From), sizeof(From));
    into[i] = static_cast<T>(element);  // NOLINT(bugprone-signed-char-misuse): an INT8 is a number
  }
}

template <float (*ToFloat)(uint16_t), class T>
void copy_half(const std::byte* bytes, std::span<T> into, int64_t first) {
  for (size_t i = 0; i < into.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes + (static_cast<size_t>(first) + i) * 2, 2);
    into[i] = static_cast<T>(ToFloat(bits));
  }
}

// Two to a byte, the first in the lower bits.
template <class T>
void copy_nibbles(const std::byte* bytes, std::span<T> into, int64_t first, bool is_signed) {
  for (size_t i = 0; i < into.size(); ++i) {
    const size_t place = static_cast<size_t>(first) + i;
    const int nibble = std::to_integer<int>(bytes[place / 2]) >> (place % 2 == 0 ? 0 : 4) & 0xF;
    into[i] = static_cast<T>(is_signed && nibble > 7 ? nibble - 16 : nibble);
  }
}

// A sign, four or five bits of exponent, the rest fraction. FN has no infinities, UZ one zero and another bias.
float float_of_8(int type, uint8_t bits) {
  const bool is_wide = type == kFloat8E5M2 || type == kFloat8E5M2FNUZ;
  const bool one_zero = type == kFloat8E4M3FNUZ || type == kFloat8E5M2FNUZ;
  const int fraction_bits = is_wide ? 2 : 3;
  const int bias = (is_wide ? 15 : 7) + (one_zero ? 1 : 0);
  const int most = is_wide ? 31 : 15;
  const int exponent = bits >> fraction_bits & most;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const float sign = (bits & 0x80) != 0 ? -1.0F : 1.0F;
  if (one_zero && bits == 0x80) return std::numeric_limits<float>::quiet_NaN();
  if (type == kFloat8E4M3FN && (bits & 0x7F) == 0x7F) return std::numeric_limits<float>::quiet_NaN();
  if (type == kFloat8E5M2 && exponent == most) {
    return fraction == 0 ? sign * std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  }
  const int whole = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
  return sign * std::ldexp(static_cast<float>(whole), std::max(exponent, 1) - bias - fraction_bits);
}

bool is_float_8(int type) { return type >= kFloat8E4M3FN && type <= kFloat8E5M2FNUZ; }

template <class T>
void copy_float_8(int type, const std::byte* bytes, std::span<T> into, int64_t first) {
  for (size_t i = 0; i < into.size(); ++i) {
    into[i] = static_cast<T>(float_of_8(type, std::to_integer<uint8_t>(bytes[static_cast<size_t>(first) + i])));
  }
}

template <class T>
void copy_elements(int type, const std::byte* bytes, std::span<T> into, int64_t first) {
  if (is_float_8(type)) return copy_float_8(type, bytes, into, first);
  switch (type) {
    case TensorProto::FLOAT:
      return copy_as<float>(bytes, into, first);
    case TensorProto::DOUBLE:
      return copy_as<double>(bytes, into, first);
    case TensorProto::FLOAT16:
      return copy_half<float_of_f16>(bytes, into, first);
    case TensorProto::BFLOAT16:
      return copy_half<float_of_bf16>(bytes, into, first);
    case TensorProto::INT8:
      return copy_as<int8_t>(bytes, into, first);
    case TensorProto::INT16:
      return copy_as<int16_t>(bytes, into, first);
    case TensorProto::UINT16:
      return copy_as<uint16_t>(bytes, into, first);
    case TensorProto::INT32:
      return copy_as<int32_t>(bytes, into, first);
    case TensorProto::UINT32:
      return copy_as<uint32_t>(bytes, into, first);
    case TensorProto::INT64:
    case TensorProto::UINT64:
      return copy_as<int64_t>(bytes, into, first);
    case kInt4:
    case kUInt4:
      return copy_nibbles(bytes, into, first, type == kInt4);
    default:
      return copy_as<uint8_t>(bytes, into, first);
  }
}

class GivenTensor : public GivenValues {
 public:
  explicit GivenTensor(TensorData data) : data_(std::move(data)) {}
  std::string text() const override { return data_.name(); }
  void read(std::span<float> into, uint64_t first) const override { data_.read(into, static_cast<int64_t>(first)); }
  void read(std::span<int64_t> into, uint64_t first) const override { data_.read(into, static_cast<int64_t>(first)); }

 private:
  TensorData data_;
};

Shape shape_of(const ModelFile& file, const TensorProto& proto) {
  try {
    const std::vector<int64_t> dims(proto.dims().begin(), proto.dims().end());
    return Shape(dims);
  } catch (const ArgumentError& error) {
    throw InputError({.source = file.name}, fmt::format("tensor {}: {}", quote(proto.name()), error.what()));
  }
}

}  // namespace

std::string_view element_type_name(int element_type) {
  const ElementType* known = find_type(element_type);
  if (known != nullptr) return known->name;
  return element_type == TensorProto::STRING ? "STRING" : "a type that is not known";
}

int64_t element_bits(int element_type) {
  const ElementType* known = find_type(element_type);
  return known == nullptr ? 0 : known->bits;
}

ElementKind element_kind(const ModelFile& file, int element_type, std::string_view what) {
  const ElementType* known = find_type(element_type);
  if (known != nullptr) return known->kind;
  throw UnsupportedError(fmt::format("{}: {} has elements of {} ({}), which has no kernels here", file.name, what,
                                     element_type_name(element_type), element_type));
}

TensorData::TensorData(std::shared_ptr<const ModelFile> file, const TensorProto& proto)
    : file_(std::move(file)),
      proto_(&proto),
      kind_(element_kind(*file_, proto.data_type(), fmt::format("tensor {}", quote(proto.name())))),
      shape_(shape_of(*file_, proto)) {
  try {
    elements_ = shape_.elements();
    (void)TensorSpec{DType::f64, shape_}.bytes();
  } catch (const ArgumentError& error) {
    throw InputError({.source = file_->name}, fmt::format("tensor {}: {}", quote(name()), error.what()));
  }
  check_size();
}

bool TensorData::is_external() const { return proto_->data_location() == TensorProto::EXTERNAL; }

bool TensorData::is_there() const {
  if (!is_external()) return true;
  std::error_code error;
  return std::filesystem::exists(external_place(*file_, *proto_).path, error);
}

int64_t TensorData::field_count() const {
  switch (element_type()) {
    case TensorProto::FLOAT:
      return proto_->float_data_size();
    case TensorProto::DOUBLE:
      return proto_->double_data_size();
    case TensorProto::INT64:
      return proto_->int64_data_size();
    case TensorProto::UINT32:
    case TensorProto::UINT64:
      return proto_->uint64_data_size();
    case kInt4:
    case kUInt4:
      return std::min<int64_t>(2 * int64_t{proto_->int32_data_size()}, elements_);
    default:
      return proto_->int32_data_size();
  }
}

// Below 2^63, as eight bytes for each element are.
int64_t TensorData::stored_bytes() const {
  const int64_t bits = element_bits(element_type());
  return bits < 8 ? elements_ / 2 + elements_ % 2 : elements_ * (bits / 8);
}

void TensorData::check_size() const {
  const int64_t bytes = stored_bytes();
  const auto reject = [&](std::string_view what, int64_t found, int64_t expected) {
    throw InputError({.source = file_->name},
                     fmt::format("tensor {} has {} {}, expected {} for {}{}", quote(name()), found, what, expected,
                                 element_type_name(element_type()), shape_.text()));
  };
  if (is_external()) {
    const ExternalPlace place = external_place(*file_, *proto_);
    if (place.length >= 0 && place.length != bytes) reject("bytes of external data", place.length, bytes);
  } else if (proto_->has_raw_data()) {
    if (static_cast<int64_t>(proto_->raw_data().size()) != bytes) {
      reject("bytes", static_cast<int64_t>(proto_->raw_data().size()), bytes);
    }
  } else if (field_count() != elements_) {
    reject("elements", field_count(), elements_);
  }
}

template <class T>
void TensorData::read_fields(std::span<T> into, int64_t first) const {
  const auto copy = [&](const auto& field) {
    for (size_t i = 0; i < into.size(); ++i)
      into[i] = static_cast<T>(field.Get(static_cast<int>(first) + static_cast<int>(i)));
  };
  const auto copy_bits = [&](float (*to_float)(uint16_t)) {
    for (size_t i = 0; i < into.size(); ++i) {
      into[i] = static_cast<T>(
          to_float(static_cast<uint16_t>(proto_->int32_data(static_cast<int>(first) + static_cast<int>(i)))));
    }
  };
  if (is_float_8(element_type())) {
    for (size_t i = 0; i < into.size(); ++i) {
      const int32_t bits = proto_->int32_data(static_cast<int>(first) + static_cast<int>(i));
      into[i] = static_cast<T>(float_of_8(element_type(), static_cast<uint8_t>(bits)));
    }
    return;
  }
  switch (element_type()) {
    case TensorProto::FLOAT:
      return copy(proto_->float_data());
    case TensorProto::DOUBLE:
      return copy(proto_->double_data());
    case TensorProto::INT64:
      return copy(proto_->int64_data());
    case TensorProto::UINT32:
    case TensorProto::UINT64:
      return copy(proto_->uint64_data());
    case TensorProto::FLOAT16:
      return copy_bits(float_of_f16);
    case TensorProto::BFLOAT16:
      return copy_bits(float_of_bf16);
    case kInt4:
    case kUInt4: {
      const int64_t begin = first / 2;
      const int64_t end = (first + static_cast<int64_t>(into.size()) + 1) / 2;
      std::vector<std::byte> packed;
      for (int64_t i = begin; i < end; ++i)
        packed.push_back(static_cast<std::byte>(proto_->int32_data(static_cast<int>(i))));
      return copy_nibbles(packed.data(), into, first - 2 * begin, element_type() == kInt4);
    }
    default:
      return copy(proto_->int32_data());
  }
}

template <class T>
void TensorData::read_into(std::span<T> into, int64_t first) const {
  if (into.empty()) return;
  if (!is_external()) {
    if (!proto_->has_raw_data()) return read_fields(into, first);
    return copy_elements(element_type(), reinterpret_cast<const std::byte*>(proto_->raw_data().data()), into, first);
  }
  const ExternalPlace place = external_place(*file_, *proto_);
  if (!is_there()) {
    throw InputError({.source = file_->name},
                     fmt::format("the values of {} are in {}, which is not there: --init draws "
                                 "missing values at random",
                                 quote(name()), quote(place.path)));
  }
  const MappedFile mapped(place.path);
  const auto size = static_cast<int64_t>(mapped.bytes().size());
  const int64_t needed = stored_bytes();
  if (place.offset > size || needed > size - place.offset) {
    throw InputError({.source = place.path}, fmt::format("{} bytes", size),
                     fmt::format("{} bytes of {} from byte {} on", needed, quote(name()), place.offset));
  }
  copy_elements(element_type(), mapped.bytes().data() + place.offset, into, first);
}

template void TensorData::read_into<float>(std::span<float>, int64_t) const;
template void TensorData::read_into<double>(std::span<double>, int64_t) const;
template void TensorData::read_into<int64_t>(std::span<int64_t>, int64_t) const;

std::shared_ptr<const GivenValues> given_values(TensorData data) {
  return std::make_shared<GivenTensor>(std::move(data));
}

}  // namespace plimsoll::models::onnx_import
