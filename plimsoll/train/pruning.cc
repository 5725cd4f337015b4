#include "plimsoll/train/pruning.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/models/prune.h"
#include "plimsoll/program/op.h"

namespace plimsoll::train {
namespace {

using program::Program;
using program::Value;

constexpr int64_t kVector = 16;  // channels that kernels take at once

// How many stay: whole vectors where there were, and one at least.
int64_t kept_of(int64_t channels, double share) {
  const auto kept = std::max<int64_t>(1, std::llround(static_cast<double>(channels) * (1 - share)));
  return channels >= 4 * kVector && channels % kVector == 0 ? std::min(channels, align_up(kept, kVector)) : kept;
}

// The sums of the sizes of the weights that make each channel, by layer in shares of its mean.
std::vector<double> channel_sizes(Tensors& tensors, const models::ChannelGroup& group) {
  std::vector<double> sizes(static_cast<size_t>(group.channels));
  for (const auto& along : group.along) {
    if (!along.produces) continue;
    const Tensor& tensor = tensor_of(tensors, along.name);
    const size_t columns = tensor.values.size() / sizes.size();
    double all = 0;
    for (const float x : tensor.values) all += std::abs(static_cast<double>(x));
    for (size_t i = 0; i < tensor.values.size() && all > 0; ++i) {
      sizes[i / columns] += std::abs(static_cast<double>(tensor.values[i])) / all;
    }
  }
  return sizes;
}

std::vector<int64_t> largest_channels(const std::vector<double>& sizes, int64_t count) {
  std::vector<int64_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return sizes[static_cast<size_t>(a)] > sizes[static_cast<size_t>(b)]; });
  order.resize(static_cast<size_t>(count));
  std::sort(order.begin(), order.end());
  return order;
}

// Leaves the places of these channels along a dimension.
void keep_channels(Tensor& tensor, const models::ChannelGroup::Along& along, const std::vector<int64_t>& channels) {
  int64_t outer = 1;
  int64_t inner = along.repeat;
  for (int i = 0; i < tensor.shape.rank(); ++i) {
    if (i < along.axis) outer *= tensor.shape[i];
    if (i > along.axis) inner *= tensor.shape[i];
  }
  const int64_t line = tensor.shape[along.axis] / along.repeat * inner;
  std::vector<float> kept;
  kept.reserve(static_cast<size_t>(outer * inner) * channels.size());
  for (int64_t o = 0; o < outer; ++o) {
    for (const int64_t channel : channels) {
      const auto from = tensor.values.begin() + o * line + channel * inner;
      kept.insert(kept.end(), from, from + inner);
    }
  }
  std::vector<int64_t> dims(tensor.shape.dims().begin(), tensor.shape.dims().end());
  dims[static_cast<size_t>(along.axis)] = static_cast<int64_t>(channels.size()) * along.repeat;
  tensor.shape = Shape(dims);
  tensor.values = std::move(kept);
}

PrunedChannels prune_channels(Tensors& tensors, const Program& program, double share) {
  PrunedChannels result;
  for (const models::ChannelGroup& group : models::find_channel_groups(program)) {
    const int64_t kept = kept_of(group.channels, share);
    result.all += group.channels;
    result.pruned += group.channels - kept;
    if (kept == group.channels) continue;
    const std::vector<int64_t> channels = largest_channels(channel_sizes(tensors, group), kept);
    for (const auto& along : group.along) keep_channels(tensor_of(tensors, along.name), along, channels);
  }
  if (result.all == 0) {
    throw UnsupportedError("no channels of this model can go: all are added to, or joined with, what comes in or out");
  }
  return result;
}

void prune_weights(Tensor& tensor, double share) {
  std::vector<float> sizes(tensor.values.size());
  std::transform(tensor.values.begin(), tensor.values.end(), sizes.begin(), [](float x) { return std::abs(x); });
  const auto count = static_cast<size_t>(static_cast<double>(sizes.size()) * share);
  if (count == 0) return;
  std::nth_element(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(count - 1), sizes.end());
  const float limit = sizes[count - 1];
  size_t left = count;  // of several that are as large, no more than were asked for
  for (float& x : tensor.values) {
    if (left == 0 || std::abs(x) > limit) continue;
    x = 0;
    --left;
  }
}

}  // namespace

Tensor& tensor_of(Tensors& tensors, std::string_view name) {
  return *std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& tensor) { return tensor.name == name; });
}

std::vector<LayerWeights> layers_of(const Program& program) {
  std::vector<LayerWeights> layers;
  for (const program::Op& op : program.ops) {
    if (!op.def->traits.quantized) continue;
    const auto form = op.def->traits.quantized(*program::OwnedOpCall(program, op));
    if (!form) continue;
    const Value weights = op.inputs[static_cast<size_t>(form->weights)];
    const auto& parameters = program.parameters;
    const bool is_parameter = std::find(parameters.begin(), parameters.end(), weights) != parameters.end();
    const bool is_known =
        std::any_of(layers.begin(), layers.end(), [&](const auto& one) { return one.weights == weights; });
    if (is_parameter && !is_known) layers.push_back({weights, form->gathers ? Value{} : op.inputs[0]});
  }
  return layers;
}

PrunedChannels prune(Tensors& tensors, const Program& inference, double share, bool structured) {
  if (share == 0) return {};
  if (structured) return prune_channels(tensors, inference, share);
  for (const LayerWeights& layer : layers_of(inference)) {
    prune_weights(tensor_of(tensors, inference[layer.weights].name), share);
  }
  return {};
}

}  // namespace plimsoll::train
