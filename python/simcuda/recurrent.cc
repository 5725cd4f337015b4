// cuDNN's recurrent layers: the sizes and the layout of their weights, and the memory that they work in. cuDNN asks the
// device for these; the formulas here are from what it answered on an H200 for 1,600 layers (cuDNN 9.19). The reserve
// is exact to alignment; the workspace to a percent where the input is no wider than the hidden state, to a few
// otherwise.
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <unordered_map>

#include "card.h"

namespace {

using plimsoll::simcuda::card;
using Descriptor = void*;

enum Cell { kRelu = 0, kTanh = 1, kLstm = 2, kGru = 3 };

struct Layers {
  int cell = 0;
  int64_t biases = 0;  // of each gate
  int64_t directions = 1;
  int data_type = 0;
  int64_t input = 0;
  int64_t hidden = 0;
  int64_t projected = 0;
  int64_t count = 0;
  bool dropout = false;

  int64_t element_bytes() const { return data_type == 0 ? 4 : data_type == 1 ? 8 : 2; }
  int64_t gates() const { return cell == kLstm ? 4 : cell == kGru ? 3 : 1; }
  int64_t input_of(int64_t layer) const { return layer == 0 ? input : projected * directions; }
  bool projects() const { return projected != hidden; }
  // Elements of the matrices of one direction of a layer.
  int64_t matrices(int64_t layer) const {
    return gates() * hidden * (input_of(layer) + projected) + (projects() ? projected * hidden : 0);
  }
  int64_t all_matrices() const {
    int64_t sum = 0;
    for (int64_t layer = 0; layer < count; ++layer) sum += directions * matrices(layer);
    return sum;
  }
  int64_t all_biases() const { return count * directions * gates() * hidden * biases; }
};

struct Sequences {
  bool packed = false;
  int64_t length = 0;
  int64_t batch = 0;
  int64_t tokens = 0;  // of all sequences; padding counts where they are not packed

  int64_t padded() const { return length * batch; }
};

std::mutex mutex;
std::unordered_map<Descriptor, Layers> layers_of;
std::unordered_map<Descriptor, Sequences> sequences_of;
std::unordered_map<Descriptor, float> dropout_of;

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(dlopen("libcudnn.so.9", RTLD_LAZY), name));
}

// What is kept for the backward pass: gates and states of each layer, and between layers outputs and dropout's bits,
// which are there for padding, too.
int64_t reserve_bytes(const Layers& l, const Sequences& s) {
  const int64_t state = s.tokens * l.hidden;
  const int64_t kept = l.cell == kLstm ? 5 : l.cell == kGru ? 6 : 1;
  const int64_t between = (l.count - 1) * l.directions;
  const int64_t bits = l.dropout ? between * l.directions * s.padded() * l.hidden / 8 : 0;
  return (kept * l.count * l.directions + between) * state * l.element_bytes() + bits + 256;
}

// Elements; the states that begin and end sequences are there for each of the batch.
int64_t workspace_one_direction(const Layers& l, const Sequences& s) {
  const int64_t hidden = l.hidden * s.tokens, input = l.input * s.tokens, states = l.hidden * s.batch;
  if (l.count == 1) {
    if (l.cell == kLstm) return std::max(5 * hidden + 10 * states + input, 3 * hidden + 11 * states + 3 * input);
    return 3 * hidden + 5 * states + 2 * input + std::max(hidden, input);
  }
  const int64_t masked = l.dropout ? hidden : 0;
  const int64_t wide = 2 * hidden + 3 * input;
  if (l.cell == kLstm) return std::max(5 * hidden + input + masked, wide) + 10 * l.count * states;
  if (l.cell == kGru) return std::max(4 * hidden + input + masked, wide) + 5 * l.count * states;
  return std::max(3 * hidden + 2 * input, wide) + 10 * l.count * states;
}

int64_t workspace_two_directions(const Layers& l, const Sequences& s) {
  const int64_t hidden = l.hidden * s.tokens, input = l.input * s.tokens, states = l.hidden * s.batch;
  const int64_t wide = (l.count == 1 ? 6 : 8) * hidden + 6 * input;
  if (l.cell == kLstm) return std::max(14 * hidden + input, wide) + 24 * l.count * states;
  const bool plain = l.cell != kGru && l.count == 1;
  const int64_t inputs = l.cell == kGru && l.count == 1 ? 1 : 2;
  return std::max((plain ? 10 : 12) * hidden + inputs * input, wide) + 14 * l.count * states;
}

int64_t workspace_bytes(const Layers& l, const Sequences& s) {
  int64_t elements = l.directions == 1 ? workspace_one_direction(l, s) : workspace_two_directions(l, s);
  if (s.packed) {  // no padded copies of inputs and outputs
    elements -= s.tokens * (l.directions * l.hidden + l.input);
    elements -= (l.cell == kLstm ? 8 : 4) * l.directions * l.hidden * s.batch;
  }
  constexpr int64_t kOfEachProduct = 8 << 20;
  return (elements + l.all_matrices()) * l.element_bytes() + kOfEachProduct * l.count * l.directions + 512;
}

}  // namespace

extern "C" {

// The states of a random generator in every thread that the card can run.
int cudnnDropoutGetStatesSize(void*, size_t* bytes) {
  *bytes = static_cast<size_t>(card().multiprocessors) * 2048 * 24;
  return 0;
}

int cudnnSetDropoutDescriptor(Descriptor descriptor, void*, float dropout, void*, size_t, unsigned long long) {
  const std::lock_guard lock(mutex);
  dropout_of[descriptor] = dropout;
  return 0;
}

int cudnnRestoreDropoutDescriptor(Descriptor descriptor, void*, float dropout, void*, size_t, unsigned long long) {
  return cudnnSetDropoutDescriptor(descriptor, nullptr, dropout, nullptr, 0, 0);
}

int cudnnSetRNNDescriptor_v8(Descriptor descriptor, int, int cell, int bias, int direction, int, int type, int, int,
                             int input, int hidden, int projected, int layers, Descriptor dropout, unsigned) {
  const std::lock_guard lock(mutex);
  layers_of[descriptor] = {.cell = cell,
                           .biases = bias == 0   ? 0
                                     : bias == 2 ? 2
                                                 : 1,
                           .directions = direction == 0 ? 1 : 2,
                           .data_type = type,
                           .input = input,
                           .hidden = hidden,
                           .projected = projected,
                           .count = layers,
                           .dropout = dropout != nullptr && dropout_of[dropout] > 0};
  return 0;
}

int cudnnSetRNNDataDescriptor(Descriptor descriptor, int, int layout, int length, int batch, int, const int* lengths,
                              void*) {
  const std::lock_guard lock(mutex);
  Sequences& s = sequences_of[descriptor] = {.packed = layout == 1, .length = length, .batch = batch};
  s.tokens = s.packed && lengths != nullptr ? std::accumulate(lengths, lengths + batch, int64_t{0}) : s.padded();
  return 0;
}

int cudnnGetRNNWeightSpaceSize(void*, Descriptor descriptor, size_t* bytes) {
  const std::lock_guard lock(mutex);
  const Layers& l = layers_of[descriptor];
  *bytes = static_cast<size_t>((l.all_matrices() + l.all_biases()) * l.element_bytes());
  return 0;
}

int cudnnGetRNNTempSpaceSizes(void*, Descriptor descriptor, int training, Descriptor data, size_t* workspace,
                              size_t* reserve) {
  const std::lock_guard lock(mutex);
  const Layers& l = layers_of[descriptor];
  const Sequences& s = sequences_of[data];
  if (workspace != nullptr) *workspace = static_cast<size_t>(workspace_bytes(l, s));
  if (reserve != nullptr) *reserve = training != 0 ? static_cast<size_t>(reserve_bytes(l, s)) : 0;
  return 0;
}

// The caller may leave an address out. Matrices of all layers come first, then the biases: of each direction first
// those of the input, then of the state.
int cudnnGetRNNWeightParams(void*, Descriptor descriptor, int pseudo_layer, size_t, const void* space, int product,
                            Descriptor matrix, void** matrix_address, Descriptor bias, void** bias_address) {
  static auto* const set_tensor = real<int(Descriptor, int, int, const int*, const int*)>("cudnnSetTensorNdDescriptor");
  const std::lock_guard lock(mutex);
  const Layers& l = layers_of[descriptor];
  const int64_t layer = pseudo_layer / l.directions;
  int64_t offset = 0;
  for (int64_t before = 0; before < pseudo_layer; ++before) offset += l.matrices(before / l.directions);
  const int64_t of_input = std::min<int64_t>(product, l.gates());
  const int64_t of_state = product - of_input;
  offset += of_input * l.hidden * l.input_of(layer) + of_state * l.hidden * l.projected;
  const bool projection = product == 2 * l.gates();
  const auto rows = static_cast<int>(projection ? l.projected : l.hidden);
  const auto columns = static_cast<int>(projection ? l.hidden : product < l.gates() ? l.input_of(layer) : l.projected);
  auto* const base = const_cast<char*>(static_cast<const char*>(space));
  const int sizes[3] = {1, rows, columns}, strides[3] = {rows * columns, columns, 1};
  if (matrix_address != nullptr) {
    set_tensor(matrix, l.data_type, 3, sizes, strides);
    *matrix_address = base + offset * l.element_bytes();
  }
  if (bias_address == nullptr) return 0;
  *bias_address = nullptr;
  if (l.biases == 2 && !projection) {
    const int64_t place = l.all_matrices() + (pseudo_layer * 2 * l.gates() + product) * l.hidden;
    const int bias_sizes[3] = {1, rows, 1}, bias_strides[3] = {rows, 1, 1};
    set_tensor(bias, l.data_type, 3, bias_sizes, bias_strides);
    *bias_address = base + place * l.element_bytes();
  }
  return 0;
}

}  // extern "C"
