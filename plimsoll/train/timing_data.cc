#include "plimsoll/train/timing_data.h"

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "plimsoll/base/bytes.h"

namespace plimsoll::train {
namespace {

// The same again and again, after more than processors learn by heart.
template <class T, class F>
void fill(std::span<T> data, F number) {
  constexpr size_t kPattern = 262139;
  uint32_t state = 1;
  for (T& x : data.first(std::min(kPattern, data.size()))) {
    state = state * 1664525 + 1013904223;
    x = number(state);
  }
  for (size_t i = kPattern; i < data.size(); ++i) data[i] = data[i - kPattern];
}

float number_from(uint32_t random) { return static_cast<float>(static_cast<int32_t>(random)) * 0x1p-31F; }
uint16_t bf16_from(uint32_t random) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(number_from(random)) >> 16);
}
// A sign, an exponent from -7 to -1, and a fraction.
uint16_t f16_from(uint32_t random) {
  const uint32_t bits = random >> 16;
  return static_cast<uint16_t>((bits & 0x8000U) | ((8 + random % 7) << 10) | (bits & 0x3ffU));
}

template <class T>
std::span<T> span_of(std::byte* data, int64_t bytes) {
  return {reinterpret_cast<T*>(data), static_cast<size_t>(bytes) / sizeof(T)};
}

void fill(std::byte* data, const TensorSpec& spec) {
  const int64_t bytes = spec.bytes();
  if (spec.dtype == DType::f32) fill(span_of<float>(data, bytes), number_from);
  if (spec.dtype == DType::bf16) fill(span_of<uint16_t>(data, bytes), bf16_from);
  if (spec.dtype == DType::f16) fill(span_of<uint16_t>(data, bytes), f16_from);
}

}  // namespace

// Where the host cannot write there, by way of a copy of the first numbers, which the device repeats.
void fill_with_numbers(device::Device& device, device::Stream& stream, std::byte* at, const TensorSpec& spec) {
  if (device.traits().is_host) return fill(at, spec);
  constexpr int64_t kFromHost = kMiB;
  TensorSpec first = spec;
  const int64_t bytes = spec.bytes();
  if (bytes > kFromHost) first.shape = Shape({kFromHost / element_bytes(spec.dtype)});
  std::vector<std::byte> numbers(static_cast<size_t>(first.bytes()));
  fill(numbers.data(), first);
  device.write(at, numbers);
  for (int64_t done = first.bytes(); done < bytes; done *= 2) stream.copy(at + done, at, std::min(done, bytes - done));
  stream.synchronize();
}

void fill_with_indices(device::Device& device, std::byte* at, const TensorSpec& spec, int64_t range) {
  const auto write = [&](auto zero) {
    std::vector<decltype(zero)> indices(static_cast<size_t>(spec.shape.elements()));
    uint32_t state = 1;
    for (auto& index : indices) {
      state = state * 1664525 + 1013904223;
      index = static_cast<decltype(zero)>((state >> 8) % static_cast<uint64_t>(range));
    }
    device.write(at, std::as_bytes(std::span(indices)));
  };
  if (spec.dtype == DType::i64) write(int64_t{});
  if (spec.dtype == DType::i32) write(int32_t{});
}

}  // namespace plimsoll::train
