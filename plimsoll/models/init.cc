#include "plimsoll/models/init.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numbers>

#include "plimsoll/program/quantization.h"
#include "plimsoll/program/random.h"

namespace plimsoll::models {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"constant", "uniform", "normal"};

// In (0, 1): never 0, whose logarithm is infinite.
double unit(uint64_t seed, uint64_t stream, uint64_t index) {
  return (program::random_bits(seed, stream, index) + 0.5) / 4294967296.0;
}

// Box and Muller's: two uniform numbers to a normal one.
double standard_normal(uint64_t seed, uint64_t stream, uint64_t index) {
  const double radius = std::sqrt(-2 * std::log(unit(seed, stream, 2 * index)));
  return radius * std::cos(2 * std::numbers::pi * unit(seed, stream, 2 * index + 1));
}

double number(const Init& init, uint64_t seed, uint64_t stream, uint64_t index) {
  switch (init.kind) {
    case Init::Kind::normal:
      return init.scale * standard_normal(seed, stream, index);
    case Init::Kind::uniform:
      return init.scale * (2 * unit(seed, stream, index) - 1);
    default:
      return init.scale;
  }
}

}  // namespace

std::string Init::text() const {
  if (kind == Kind::given) return fmt::format("given({})", values->text());
  return fmt::format("{}({:.6g})", kNames[static_cast<size_t>(kind)], scale);
}

Init fan_in(int64_t inputs) { return uniform(1 / std::sqrt(static_cast<double>(inputs))); }

std::vector<double> draw(const Init& init, int64_t count, uint64_t seed, uint64_t stream) {
  std::vector<double> numbers(static_cast<size_t>(count));
  if (init.kind == Init::Kind::given) {
    std::vector<float> read(numbers.size());
    init.values->read(read, 0);
    return {read.begin(), read.end()};
  }
  const uint64_t own = init.stream.value_or(stream);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = number(init, seed, own, i);
  return numbers;
}

void draw(const Init& init, std::span<float> into, uint64_t seed, uint64_t stream, uint64_t first) {
  if (init.kind == Init::Kind::given) return init.values->read(into, first);
  const uint64_t own = init.stream.value_or(stream);
  for (size_t i = 0; i < into.size(); ++i) into[i] = static_cast<float>(number(init, seed, own, first + i));
}

void draw(const Init& init, std::span<int8_t> into, std::span<float> scales, uint64_t seed, uint64_t stream) {
  std::vector<float> row(scales.empty() ? 0 : into.size() / scales.size());
  for (size_t i = 0; i < scales.size(); ++i) {
    draw(init, row, seed, stream, i * row.size());
    scales[i] = program::quantize_row(row, into.subspan(i * row.size(), row.size()));
  }
}

}  // namespace plimsoll::models
