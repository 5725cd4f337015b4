// Element types of tensors.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll {

enum class DType : uint8_t { f64, f32, f16, bf16, i8, u8, i16, i32, i64, boolean };

inline constexpr std::array kAllDTypes = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i8,
                                          DType::u8,  DType::i16, DType::i32, DType::i64,  DType::boolean};

// Bytes of one element; a bool takes one.
int64_t element_bytes(DType dtype);

bool is_floating(DType dtype);
bool is_integer(DType dtype);  // bool is not an integer

// The name in our own text: "f32", "bool".
std::string_view name(DType dtype);

// The name that OOM messages use: "float", "half", "bfloat16", "int8".
std::string_view long_name(DType dtype);

// Reads our names and those of NumPy, PyTorch, TensorFlow and C ("float32", "half", "int64", "double").
std::optional<DType> try_parse_dtype(std::string_view text);
DType parse_dtype(std::string_view text);  // ArgumentError that lists the names

}  // namespace plimsoll
