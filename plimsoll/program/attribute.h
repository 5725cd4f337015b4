// Attributes of ops: a closed set of kinds, each printable and readable. Whole numbers are Dims, so a slice may end at
// `sequence-1`; a schema that asks for `integer` admits only numbers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "plimsoll/program/type.h"

namespace plimsoll::program {

enum class AttributeKind : uint8_t { flag, integer, integers, dim, dims, real, word };

std::string_view name(AttributeKind kind);

class Attribute {
 public:
  Attribute(bool flag) : value_(flag) {}                           // NOLINT: all of these read as literals
  Attribute(int number) : value_(Dim(number)) {}                   // NOLINT
  Attribute(int64_t number) : value_(Dim(number)) {}               // NOLINT
  Attribute(Dim dim) : value_(dim) {}                              // NOLINT
  Attribute(double real) : value_(real) {}                         // NOLINT
  Attribute(const char* word) : value_(std::string(word)) {}       // NOLINT
  Attribute(std::string_view word) : value_(std::string(word)) {}  // NOLINT
  Attribute(std::string word) : value_(std::move(word)) {}         // NOLINT
  Attribute(DType dtype) : Attribute(plimsoll::name(dtype)) {}     // NOLINT
  Attribute(const Dims& dims) : value_(dims) {}                    // NOLINT

  // The kind that this value has by itself: `dim` and `dims` also when all numbers.
  AttributeKind kind() const;
  bool fits(AttributeKind wanted) const;

  // The value; what it is must have been checked (the Builder does).
  bool flag() const { return std::get<bool>(value_); }
  Dim dim() const { return std::get<Dim>(value_); }
  double real() const { return std::get<double>(value_); }
  const std::string& word() const { return std::get<std::string>(value_); }
  const Dims& dims() const { return std::get<Dims>(value_); }

  Attribute bind(const Bindings& bindings) const;
  std::string text() const;  // "true", "2*batch", "0.5", "nearest", "[1,2]"

  // What is not a number equals itself: passes go on until nothing differs.
  bool operator==(const Attribute& other) const;

 private:
  std::variant<bool, Dim, double, std::string, Dims> value_;
};

// Reads what text() wrote. ArgumentError that says what was expected.
Attribute parse_attribute(AttributeKind kind, std::string_view text);

// One line of an op's schema. Without a fallback the attribute must be given.
struct AttributeSpec {
  std::string name;
  AttributeKind kind;
  std::optional<Attribute> fallback;
};

}  // namespace plimsoll::program
