// Layers. A model is a function that calls them in the order of its paper; names are those of PyTorch, nested by
// Scope: `layer1.0.conv1.weight`. Each layer makes its parameters, says how they start, and returns its result.
//
//   Net net({.training = true});
//   Value x = net.input("x", {net.batch(), 3, 32, 32});
//   x = relu(net, conv2d(net, "conv1", x, 64, 3, {.padding = 1}));
//
// Training in f16 or bf16 keeps every weight in f32, the master that the optimizer updates, and computes with a copy
// that is cast in the step. Inference holds the weights in the lower precision only. Weights of normalisations stay
// f32.
#pragma once

#include <string_view>
#include <vector>

#include "plimsoll/models/init.h"
#include "plimsoll/program/builder.h"

namespace plimsoll::models {

using program::Builder;
using program::Dim;
using program::Dims;
using program::Value;

struct NetOptions {
  DType dtype = DType::f32;  // of activations
  bool training = true;      // batch statistics, dropout, losses
};

// A model: a forward program with symbolic dimensions, and how its parameters start.
struct Model {
  program::Program program;
  Value result;             // what the model answers
  Value loss;               // the program's output in training; in inference nothing, and the output is the result
  std::vector<Init> inits;  // for each of program.parameters
  std::vector<Init> state_inits;  // for each of program.state
  NetOptions options = {};        // that it was built with
};

// A model under construction.
class Net {
 public:
  explicit Net(const NetOptions& options = {});

  Builder b;  // NOLINT: layers and models emit through it
  DType dtype() const { return options_.dtype; }
  bool training() const { return options_.training; }
  static Dim batch() { return Dim::symbol("batch"); }
  static Dim sequence() { return Dim::symbol("sequence"); }

  Value input(std::string_view name, const Dims& shape);    // of the net's dtype
  Value indices(std::string_view name, const Dims& shape);  // i64: tokens, classes
  Value parameter(std::string_view name, const Dims& shape, const Init& init);
  // Not cast: what normalisations are computed with.
  Value wide_parameter(std::string_view name, const Dims& shape, const Init& init);
  // Kept from step to step, not trained; part of the model, as in PyTorch.
  Value wide_state(std::string_view name, const Dims& shape, const Init& init);
  // Kept and never changed: tables, masks, weights that are not trained.
  Value constant_state(std::string_view name, const program::Type& type, const Init& init);
  Value dropout_seed();  // the input `seed`, made when first asked for

  Model finish(Value result, Value loss = {}) &&;

 private:
  DType wide() const { return dtype() == DType::f64 ? DType::f64 : DType::f32; }
  bool keeps_masters() const { return training() && dtype() != wide(); }

  NetOptions options_;
  std::vector<Init> inits_;
  std::vector<Init> state_inits_;
  std::vector<Value> copies_;  // of master weights
  Value seed_;
};

struct LinearOptions {
  bool bias = true;
  std::optional<Init> init = std::nullopt;  // of the weight; its bias then starts at 0. Nothing: PyTorch's rule
};
// x[..,in] to [..,out].
Value linear(Net& net, std::string_view name, Value x, Dim out, const LinearOptions& options = {});

struct ConvOptions {
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t groups = 1;
  bool bias = true;
};
// x[batch,channels,height,width] with square kernels.
Value conv2d(Net& net, std::string_view name, Value x, int64_t out, int64_t kernel, const ConvOptions& options = {});
// Doubles height and width with a kernel of 2 and a stride of 2.
Value up_conv2d(Net& net, std::string_view name, Value x, int64_t out);

// By the statistics of the batch in training, by the running ones in inference.
Value batch_norm(Net& net, std::string_view name, Value x);
Value layer_norm(Net& net, std::string_view name, Value x, double eps = 1e-5);
Value rms_norm(Net& net, std::string_view name, Value x, double eps = 1e-5);
Value group_norm(Net& net, std::string_view name, Value x, int64_t groups, double eps = 1e-5);

// The weight stands alone where it is shared (GPT-2 reads its table twice).
Value embedding_table(Net& net, std::string_view name, int64_t rows, int64_t width, const Init& init = normal(1));

// Rows of a table of its own: indices [..] to [..,width].
Value embedding(Net& net, std::string_view name, Value indices, int64_t rows, int64_t width,
                const Init& init = normal(1));

struct Heads {
  int64_t count = 1;
  bool causal = false;  // no token sees those after it
};
// Self-attention of x[batch,sequence,width], as PyTorch's MultiheadAttention computes it and names its parameters.
Value multi_head_attention(Net& net, std::string_view name, Value x, const Heads& heads);

// Functions without parameters (functional.cc), under the names of torch.nn.functional.
Value relu(Net& net, Value x);
Value leaky_relu(Net& net, Value x, double slope = 0.01);
Value gelu(Net& net, Value x);
Value gelu_tanh(Net& net, Value x);  // as GPT-2 approximates it
Value silu(Net& net, Value x);
Value sigmoid(Net& net, Value x);
Value tanh(Net& net, Value x);
Value softmax(Net& net, Value x, int axis = -1);
Value dropout(Net& net, Value x, double rate);  // x itself in inference

// Operands broadcast as in NumPy.
Value add(Net& net, Value x, Value z);
Value sub(Net& net, Value x, Value z);
Value mul(Net& net, Value x, Value z);
Value div(Net& net, Value x, Value z);
Value affine(Net& net, Value x, double scale, double shift = 0);              // scale * x + shift
Value matmul(Net& net, Value a, Value z);                                     // [..,m,k] times [..,k,n]
Value attention(Net& net, Value q, Value k, Value v, const Heads& heads);     // each [batch,sequence,width]
Value mean(Net& net, Value x, const Dims& axes = {}, bool keepdims = false);  // no axes: over all elements

// x[batch,channels,height,width] with square windows.
Value max_pool(Net& net, Value x, int64_t kernel, int64_t stride, int64_t padding = 0);
Value avg_pool(Net& net, Value x, int64_t kernel, int64_t stride, int64_t padding = 0);
Value global_avg_pool(Net& net, Value x);         // [batch,channels,..] to [batch,channels]
Value upsample(Net& net, Value x, double scale);  // to the nearest element

// Views wherever the layout allows: they take no bytes.
Value flatten(Net& net, Value x, int axis = 1);        // two dimensions: those before `axis` and the others
Value reshape(Net& net, Value x, const Dims& shape);   // one size may be -1
Value transpose(Net& net, Value x, const Dims& axes);  // dimension i of the result is dimension axes[i] of x
Value slice(Net& net, Value x, int axis, Dim start, Dim end);
std::vector<Value> split(Net& net, Value x, int axis, int parts);
Value concat(Net& net, const std::vector<Value>& xs, int axis);  // a copy

// Ends the model: in training with the mean cross entropy against the input `target` (a class for each line of the
// logits), in inference with the logits.
Model classify(Net&& net, Value logits, int axis = -1);
// Likewise with the mean square error against a `target` of the result's shape.
Model regress(Net&& net, Value result);

// Of all parameters together.
int64_t parameter_count(const Model& model);

}  // namespace plimsoll::models
