#include "plimsoll/base/dtype.h"

#include <fmt/format.h>

#include "plimsoll/base/error.h"

namespace plimsoll {
namespace {

struct Facts {
  DType dtype;
  int64_t bytes;
  std::string_view name;
  std::string_view long_name;
  std::array<std::string_view, 3> aliases;
};

constexpr std::array<Facts, kAllDTypes.size()> kFacts = {{
    {DType::f64, 8, "f64", "double", {"float64", "fp64", ""}},
    {DType::f32, 4, "f32", "float", {"float32", "single", "fp32"}},
    {DType::f16, 2, "f16", "half", {"float16", "fp16", ""}},
    {DType::bf16, 2, "bf16", "bfloat16", {"", "", ""}},
    {DType::i8, 1, "i8", "int8", {"char", "", ""}},
    {DType::u8, 1, "u8", "uint8", {"byte", "", ""}},
    {DType::i16, 2, "i16", "int16", {"short", "", ""}},
    {DType::i32, 4, "i32", "int32", {"int", "", ""}},
    {DType::i64, 8, "i64", "int64", {"long", "", ""}},
    {DType::boolean, 1, "bool", "bool", {"boolean", "", ""}},
}};

const Facts& facts(DType dtype) { return kFacts[static_cast<size_t>(dtype)]; }

bool matches(const Facts& facts, std::string_view text) {
  if (text == facts.name || text == facts.long_name) return true;
  for (const std::string_view alias : facts.aliases) {
    if (text == alias) return true;
  }
  return false;
}

}  // namespace

int64_t element_bytes(DType dtype) { return facts(dtype).bytes; }
bool is_floating(DType dtype) { return dtype <= DType::bf16; }
bool is_integer(DType dtype) { return dtype >= DType::i8 && dtype <= DType::i64; }
std::string_view name(DType dtype) { return facts(dtype).name; }
std::string_view long_name(DType dtype) { return facts(dtype).long_name; }

std::optional<DType> try_parse_dtype(std::string_view text) {
  if (text.starts_with("torch.")) text.remove_prefix(6);
  if (text.empty()) return std::nullopt;
  for (const Facts& candidate : kFacts) {
    if (matches(candidate, text)) return candidate.dtype;
  }
  return std::nullopt;
}

DType parse_dtype(std::string_view text) {
  if (const auto dtype = try_parse_dtype(text)) return *dtype;
  std::string names;
  for (const Facts& known : kFacts) names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
  throw ArgumentError(fmt::format("{} is not a dtype: expected one of {}", quote(text), names));
}

}  // namespace plimsoll
