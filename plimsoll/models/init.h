// How parameters start. An Init is data, recorded for each parameter of a model; the numbers it stands for are drawn
// when they are wanted, the same on every machine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace plimsoll::models {

// Values that are there already: in a file, in an array. Thread-safe.
class GivenValues {
 public:
  virtual ~GivenValues() = default;
  virtual std::string text() const = 0;  // where they are: "resnet50.onnx"
  // Elements from the `first` on in row-major order. InputError or SystemError when they cannot be read.
  virtual void read(std::span<float> into, uint64_t first) const = 0;
  virtual void read(std::span<int64_t> into, uint64_t first) const = 0;
};

struct Init {
  enum class Kind : uint8_t { constant, uniform, normal, given };
  Kind kind = Kind::constant;
  double scale = 0;  // the constant; uniform in [-scale, scale]; normal with this standard deviation around 0
  std::shared_ptr<const GivenValues> values = {};  // of kind given
  // In place of the stream that a caller of draw() counts: what is moved or added beside keeps its numbers.
  std::optional<uint64_t> stream = {};

  std::string text() const;  // "uniform(0.0416667)"
  bool operator==(const Init&) const = default;
};

inline Init constant(double value) { return {Init::Kind::constant, value}; }
inline Init uniform(double bound) { return {Init::Kind::uniform, bound}; }
inline Init normal(double deviation) { return {Init::Kind::normal, deviation}; }
inline Init given(std::shared_ptr<const GivenValues> values) { return {Init::Kind::given, 0, std::move(values)}; }

// PyTorch's rule for the weights and biases of linear and convolution layers (Kaiming uniform with a = sqrt(5)):
// uniform within one over the square root of the inputs that one result reads.
Init fan_in(int64_t inputs);

// `count` numbers. Each `stream` (a parameter's place in its model) has numbers of its own under one seed.
std::vector<double> draw(const Init& init, int64_t count, uint64_t seed, uint64_t stream);
// The same numbers from the `first` on, rounded, into memory that is there; given ones are read.
void draw(const Init& init, std::span<float> into, uint64_t seed, uint64_t stream, uint64_t first = 0);
// The same numbers as rows of i8, with a scale for each (program/quantization.h). Holds one row in f32 at a time.
void draw(const Init& init, std::span<int8_t> into, std::span<float> scales, uint64_t seed, uint64_t stream);

}  // namespace plimsoll::models
