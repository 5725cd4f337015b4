// How parameters start. An Init is data, recorded for each parameter of a model; the numbers it stands for are drawn
// when they are wanted, the same on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace plimsoll::models {

struct Init {
  enum class Kind : uint8_t { constant, uniform, normal };
  Kind kind = Kind::constant;
  double scale = 0;  // the constant; uniform in [-scale, scale]; normal with this standard deviation around 0

  std::string text() const;  // "uniform(0.0416667)"
  bool operator==(const Init&) const = default;
};

constexpr Init constant(double value) { return {Init::Kind::constant, value}; }
constexpr Init uniform(double bound) { return {Init::Kind::uniform, bound}; }
constexpr Init normal(double deviation) { return {Init::Kind::normal, deviation}; }

// PyTorch's rule for the weights and biases of linear and convolution layers (Kaiming uniform with a = sqrt(5)):
// uniform within one over the square root of the inputs that one result reads.
Init fan_in(int64_t inputs);

// `count` numbers. Each `stream` (a parameter's place in its model) has numbers of its own under one seed.
std::vector<double> draw(const Init& init, int64_t count, uint64_t seed, uint64_t stream);
// The same numbers from the `first` on, rounded, into memory that is there.
void draw(const Init& init, std::span<float> into, uint64_t seed, uint64_t stream, uint64_t first = 0);
// The same numbers as rows of i8, with a scale for each (program/quantization.h). Holds one row in f32 at a time.
void draw(const Init& init, std::span<int8_t> into, std::span<float> scales, uint64_t seed, uint64_t stream);

}  // namespace plimsoll::models
