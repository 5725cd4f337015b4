#include "plimsoll/train/data/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/half.h"
#include "plimsoll/run/floats.h"

namespace plimsoll::train::data {
namespace {

using program::ValueInfo;

constexpr std::string_view kTarget = "target";

// Runs of values that share a scale and an offset: a channel of a sample, or all of it.
struct Affine {
  int64_t run = 0;  // values
  std::vector<float> scale;
  std::vector<float> offset;
};

Affine affine_of(const Field& field) {
  const int64_t elements = field.spec.shape.elements();
  const size_t channels = std::max(field.scale.size(), field.offset.size());
  Affine affine{.run = elements, .scale = field.scale, .offset = field.offset};
  if (channels > 1) affine.run = elements / static_cast<int64_t>(channels);
  affine.scale.resize(std::max<size_t>(1, channels), field.scale.size() == 1 ? field.scale[0] : 1.0F);
  affine.offset.resize(std::max<size_t>(1, channels), field.offset.size() == 1 ? field.offset[0] : 0.0F);
  return affine;
}

template <class T>
float to_float(T value) {
  return static_cast<float>(value);
}

struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};
template <>
float to_float(F16 value) {
  return float_of_f16(value.bits);
}
template <>
float to_float(Bf16 value) {
  return float_of_bf16(value.bits);
}

template <class T>
void scale_run(const T* from, float* to, int64_t count, float scale, float offset) {
  for (int64_t i = 0; i < count; ++i) to[i] = to_float(from[i]) * scale + offset;
}

// Floats of `count` whole runs or parts of one, from value `first` on.
template <class T>
void to_floats(const T* from, float* to, int64_t first, int64_t count, const Affine& affine) {
  while (count > 0) {
    const auto channel = static_cast<size_t>(first / affine.run) % affine.scale.size();
    const int64_t some = std::min(count, affine.run - first % affine.run);
    scale_run(from + first, to, some, affine.scale[channel], affine.offset[channel]);
    to += some;
    first += some;
    count -= some;
  }
}

template <class T>
void to_floating(std::span<const std::byte> stored, const Affine& affine, DType dtype, std::span<std::byte> into) {
  const auto* from = reinterpret_cast<const T*>(stored.data());
  const auto count = static_cast<int64_t>(stored.size() / sizeof(T));
  if (dtype == DType::f32) return to_floats(from, reinterpret_cast<float*>(into.data()), 0, count, affine);
  std::array<float, 2048> block;
  for (int64_t first = 0; first < count; first += static_cast<int64_t>(block.size())) {
    const auto some = std::min<int64_t>(static_cast<int64_t>(block.size()), count - first);
    to_floats(from, block.data(), first, some, affine);
    run::write_rounded(dtype, std::span(block).first(static_cast<size_t>(some)),
                       into.subspan(static_cast<size_t>(first) * 2, static_cast<size_t>(some) * 2));
  }
}

template <class T>
void to_integers(std::span<const std::byte> stored, std::span<std::byte> into) {
  const auto* from = reinterpret_cast<const T*>(stored.data());
  auto* to = reinterpret_cast<int64_t*>(into.data());
  for (size_t i = 0; i < stored.size() / sizeof(T); ++i) to[i] = static_cast<int64_t>(from[i]);
}

void write_floating(DType from, std::span<const std::byte> stored, const Affine& affine, DType to,
                    std::span<std::byte> into) {
  switch (from) {
    case DType::f64:
      return to_floating<double>(stored, affine, to, into);
    case DType::f32:
      return to_floating<float>(stored, affine, to, into);
    case DType::f16:
      return to_floating<F16>(stored, affine, to, into);
    case DType::bf16:
      return to_floating<Bf16>(stored, affine, to, into);
    case DType::i8:
      return to_floating<int8_t>(stored, affine, to, into);
    case DType::u8:
    case DType::boolean:
      return to_floating<uint8_t>(stored, affine, to, into);
    case DType::i16:
      return to_floating<int16_t>(stored, affine, to, into);
    case DType::i32:
      return to_floating<int32_t>(stored, affine, to, into);
    case DType::i64:
      return to_floating<int64_t>(stored, affine, to, into);
  }
}

bool write_integers(DType from, std::span<const std::byte> stored, std::span<std::byte> into) {
  switch (from) {
    case DType::i8:
      to_integers<int8_t>(stored, into);
      return true;
    case DType::u8:
    case DType::boolean:
      to_integers<uint8_t>(stored, into);
      return true;
    case DType::i16:
      to_integers<int16_t>(stored, into);
      return true;
    case DType::i32:
      to_integers<int32_t>(stored, into);
      return true;
    default:
      return false;
  }
}

// Of one sample, as the input takes it.
int64_t elements_of_sample(const ValueInfo& input) {
  const int64_t samples = input.type.shape.empty() ? 1 : input.type.shape[0].constant();
  return samples == 0 ? 0 : input.type.shape.elements().constant() / samples;
}

std::string names_of(const std::vector<Field>& fields) {
  std::string names;
  for (const Field& field : fields) {
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", field.name, field.spec.text());
  }
  return names;
}

int64_t inputs_beside_target(const program::Program& program) {
  return std::count_if(program.inputs.begin(), program.inputs.end(),
                       [&](program::Value value) { return program[value].name != kTarget; });
}

bool is_plain(const Field& field) { return field.scale.empty() && field.offset.empty(); }

}  // namespace

size_t field_of(const std::vector<Field>& fields, const program::Program& program, program::Value input) {
  const std::string& name = program[input].name;
  std::vector<size_t> others;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == name) return i;
    if (fields[i].name != kTarget) others.push_back(i);
  }
  if (name != kTarget && others.size() == 1 && inputs_beside_target(program) == 1) return others[0];
  throw ArgumentError(fmt::format("the data has nothing for the model's input {} ({}); it has {}", name,
                                  program[input].type.text(), names_of(fields)));
}

void convert_samples(const Field& field, std::span<const std::byte> stored, const ValueInfo& input,
                     std::span<std::byte> into) {
  const int64_t each = field.spec.shape.elements();
  if (each != elements_of_sample(input)) {
    throw ArgumentError(fmt::format("a sample's {} has {} values ({}), the model's input {} takes {} ({})", field.name,
                                    format_count(each), field.spec.text(), input.name,
                                    format_count(elements_of_sample(input)), input.type.text()));
  }
  const DType to = input.type.dtype;
  if (field.spec.dtype == to && is_plain(field)) {
    std::memcpy(into.data(), stored.data(), stored.size());
    return;
  }
  if (to == DType::f32 || to == DType::f16 || to == DType::bf16) {
    return write_floating(field.spec.dtype, stored, affine_of(field), to, into);
  }
  if (to == DType::i64 && write_integers(field.spec.dtype, stored, into)) return;
  throw ArgumentError(fmt::format("the data's {} is {}, which cannot become the model's input {} ({})", field.name,
                                  field.spec.text(), input.name, input.type.text()));
}

}  // namespace plimsoll::train::data
