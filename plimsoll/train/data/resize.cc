#include <algorithm>
#include <cmath>

#include "plimsoll/train/data/image.h"

namespace plimsoll::train::data {
namespace {

constexpr int kOne = 256;  // weights are in 256ths, so that sums of bytes fit in 16 bits

// Which values make one output value, and how much each counts.
struct Taps {
  int64_t first = 0;
  std::vector<uint16_t> weights;  // kOne together
};

// For outputs 0 .. size - 1 of the range [start, start + length) of `from` values.
std::vector<Taps> taps_of(int64_t from, double start, double length, int64_t size) {
  const double ratio = length / static_cast<double>(size);
  const double reach = std::max(1.0, ratio);
  std::vector<Taps> all(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    const double centre = start + (static_cast<double>(i) + 0.5) * ratio - 0.5;
    Taps& taps = all[static_cast<size_t>(i)];
    taps.first = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(centre - reach)), 0, from - 1);
    const int64_t last = std::clamp<int64_t>(static_cast<int64_t>(std::floor(centre + reach)), taps.first, from - 1);
    std::vector<double> exact;
    double sum = 0;
    for (int64_t j = taps.first; j <= last; ++j) {
      exact.push_back(std::max(0.0, 1.0 - std::abs(static_cast<double>(j) - centre) / reach));
      sum += exact.back();
    }
    // Rounded so that they still sum up: each takes what those before it left.
    double left = 0;
    int given = 0;
    for (double& weight : exact) {
      left += sum > 0 ? weight / sum * kOne : static_cast<double>(kOne) / static_cast<double>(exact.size());
      const int until = static_cast<int>(std::lround(left));
      taps.weights.push_back(static_cast<uint16_t>(until - given));
      given = until;
    }
    while (taps.weights.size() > 1 && taps.weights.back() == 0) taps.weights.pop_back();
  }
  return all;
}

// One line out of several: sums of whole rows, which the compiler makes vector code of.
void blend_rows(const uint8_t* from, int64_t stride, const Taps& taps, uint16_t* sums, uint8_t* line, int64_t count) {
  std::fill_n(sums, count, static_cast<uint16_t>(kOne / 2));
  for (size_t t = 0; t < taps.weights.size(); ++t) {
    const uint8_t* row = from + (taps.first + static_cast<int64_t>(t)) * stride;
    const uint16_t weight = taps.weights[t];
    for (int64_t i = 0; i < count; ++i) sums[i] = static_cast<uint16_t>(sums[i] + weight * row[i]);
  }
  for (int64_t i = 0; i < count; ++i) line[i] = static_cast<uint8_t>(sums[i] >> 8);
}

template <int kChannels>
void blend_columns(const uint8_t* line, const std::vector<Taps>& columns, int64_t first_column, uint8_t* into,
                   int64_t plane) {
  for (size_t x = 0; x < columns.size(); ++x) {
    const Taps& taps = columns[x];
    const uint8_t* at = line + (taps.first - first_column) * kChannels;
    unsigned sums[kChannels];
    std::fill_n(sums, kChannels, kOne / 2U);
    for (const uint16_t weight : taps.weights) {
      for (int c = 0; c < kChannels; ++c) sums[c] += weight * at[c];
      at += kChannels;
    }
    for (int c = 0; c < kChannels; ++c) into[c * plane + static_cast<int64_t>(x)] = static_cast<uint8_t>(sums[c] >> 8);
  }
}

void copy_planes(const uint8_t* from, ImageSize size, int64_t channels, uint8_t* into) {
  const int64_t plane = size.height * size.width;
  for (int64_t i = 0; i < plane; ++i) {
    for (int64_t c = 0; c < channels; ++c) into[c * plane + i] = from[i * channels + c];
  }
}

}  // namespace

void resize_middle(std::span<const std::byte> from, ImageSize from_size, int64_t channels, std::span<std::byte> into,
                   ImageSize size, std::vector<uint16_t>& sums, std::vector<std::byte>& lines) {
  const auto* pixels = reinterpret_cast<const uint8_t*>(from.data());
  auto* planes = reinterpret_cast<uint8_t*>(into.data());
  if (from_size == size) return copy_planes(pixels, size, channels, planes);
  const auto height = static_cast<double>(from_size.height);
  const auto width = static_cast<double>(from_size.width);
  const double ratio = std::min(height / static_cast<double>(size.height), width / static_cast<double>(size.width));
  const double used_height = ratio * static_cast<double>(size.height);
  const double used_width = ratio * static_cast<double>(size.width);
  const auto rows = taps_of(from_size.height, (height - used_height) / 2, used_height, size.height);
  const auto columns = taps_of(from_size.width, (width - used_width) / 2, used_width, size.width);
  const int64_t first = columns.front().first;
  const int64_t last = columns.back().first + static_cast<int64_t>(columns.back().weights.size());
  const int64_t count = (last - first) * channels;
  sums.resize(static_cast<size_t>(count));
  lines.resize(static_cast<size_t>(count));
  auto* line = reinterpret_cast<uint8_t*>(lines.data());
  const auto blend = channels == 1 ? blend_columns<1> : blend_columns<3>;
  for (int64_t y = 0; y < size.height; ++y) {
    blend_rows(pixels + first * channels, from_size.width * channels, rows[static_cast<size_t>(y)], sums.data(), line,
               count);
    blend(line, columns, first, planes + y * size.width, size.height * size.width);
  }
}

}  // namespace plimsoll::train::data
