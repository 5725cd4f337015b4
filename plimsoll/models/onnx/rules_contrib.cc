// ONNX Runtime's own ops, as its optimizer and its exporters write them.
#include <fmt/format.h>

#include <cmath>

#include "plimsoll/base/error.h"
#include "plimsoll/models/onnx/heads.h"
#include "plimsoll/models/onnx/norms.h"
#include "plimsoll/models/onnx/products.h"
#include "plimsoll/program/ops/constant.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/index.h"
#include "plimsoll/program/ops/linear.h"
#include "plimsoll/program/ops/matmul.h"
#include "plimsoll/program/ops/shape.h"
#include "plimsoll/program/ops/slice.h"

namespace plimsoll::models::onnx_import {
namespace {

namespace p = program;

void import_contrib_gelu(NodeCall& call) { call.set_same(p::gelu(call.b, call.value(0))); }

void import_fast_gelu(NodeCall& call) {
  Value x = call.value(0);
  if (call.has(1)) x = p::add(call.b, x, call.compact(1));
  call.set_same(p::gelu_tanh(call.b, x));
}

void import_bias_gelu(NodeCall& call) {
  call.set_same(p::gelu(call.b, p::add(call.b, call.value(0), call.compact(1))));
}

void import_quick_gelu(NodeCall& call) {
  const Value x = call.value(0);
  const double alpha = call.real("alpha", 1.702);
  call.set_same(p::mul(call.b, x, p::sigmoid(call.b, p::affine(call.b, x, {.scale = alpha}))));
}

void import_fused_matmul(NodeCall& call) {
  call.require(!call.flag("transBatchA") && !call.flag("transBatchB"), "transposed batches");
  const p::MatmulOptions options{.transpose_a = call.flag("transA"), .transpose_b = call.flag("transB")};
  Value y = p::matmul(call.b, call.value(0), call.value(1), options);
  if (const double alpha = call.real("alpha", 1); alpha != 1) y = p::affine(call.b, y, {.scale = alpha});
  call.set_same(y);
}

// By the attribute `activation` of ops that have one inside.
Value activated(NodeCall& call, Value x, const std::vector<double>& numbers) {
  Builder& b = call.b;
  const std::string name = call.text("activation", "");
  const auto number = [&](size_t i, double otherwise) { return i < numbers.size() ? numbers[i] : otherwise; };
  if (name.empty()) return x;
  if (name == "Relu") return p::relu(b, x);
  if (name == "Tanh") return p::tanh(b, x);
  if (name == "Sigmoid") return p::sigmoid(b, x);
  if (name == "LeakyRelu") return p::leaky_relu(b, x, number(0, 0.01));
  if (name == "Clip") return p::clamp(b, x, number(0, -INFINITY), number(1, INFINITY));
  if (name == "HardSigmoid") return p::hard_sigmoid(b, x, number(0, 0.2), number(1, 0.5));
  if (name == "HardSwish") return p::hard_swish(b, x);
  call.unsupported(fmt::format("the activation {}", quote(name)));
}

// Operand 3 is added before the activation.
void import_fused_conv(NodeCall& call) {
  Value y = convolution(call);
  if (call.has(3)) y = p::add(call.b, y, call.value(3));
  call.set_same(activated(call, y, call.reals("activation_params")));
}

void import_fused_gemm(NodeCall& call) {
  std::vector<double> numbers;
  for (const char* name : {"activation_alpha", "activation_beta"}) {
    if (call.attribute(name) != nullptr) numbers.push_back(call.real(name, 0));
  }
  call.set_same(activated(call, gemm(call), numbers));
}

// Token and segment ids, tables of words, positions and segments, weight and bias of the norm, mask, position ids.
void import_embed_layer_norm(NodeCall& call) {
  Builder& b = call.b;
  const Value ids = call.value(0);
  Value sum = p::embedding(b, call.value(2), ids);
  sum = p::add(b, sum,
               call.has(8) ? p::embedding(b, call.value(3), call.value(8))
                           : p::slice(b, call.value(3), p::Range{.axis = 0, .start = 0, .end = b.shape(ids)[1]}));
  if (call.has(1) && call.has(4)) sum = p::add(b, sum, p::embedding(b, call.value(4), call.value(1)));
  call.set(0, layer_norm_of(call, sum, 5, 6, 2, call.real("epsilon", 1e-12), true), call.element_type(2));
  call.require(!call.wants(1), "the lengths that a mask stands for as a result");
  if (call.wants(2)) call.set(2, sum, call.element_type(2));
}

// Input, skip, weight, bias of the norm, bias of the sum; the sum is result 3.
void skip_norm(NodeCall& call, bool centred) {
  Builder& b = call.b;
  Value sum = p::add(b, call.value(0), call.compact(1));
  const int bias = centred ? 4 : 3;
  if (call.has(bias)) sum = p::add(b, sum, call.compact(bias));
  const int axis = b.shape(sum).rank() - 1;
  call.set_same(
      layer_norm_of(call, sum, 2, centred ? 3 : -1, axis, call.real("epsilon", centred ? 1e-12 : 1e-5), centred));
  call.require(!call.wants(1) && !call.wants(2), "mean and deviation as results");
  call.set(3, sum, call.element_type(0));
}
void import_skip_layer_norm(NodeCall& call) { skip_norm(call, true); }
void import_skip_rms_norm(NodeCall& call) { skip_norm(call, false); }

int64_t heads_of(NodeCall& call) {
  const int64_t heads = call.integer("num_heads", 0);
  if (heads < 1) call.reject("num_heads is missing");
  return heads;
}

void finish_attention(NodeCall& call, Value q, Value k, Value v, const HeadsAttention& options) {
  call.set_same(from_heads(call.b, attend(call, q, k, v, options)));
}

// Which keys take part, by a number for each of [batch, keys]; nothing where there is no such operand.
Value key_mask(NodeCall& call, int at) {
  if (!call.has(at)) return {};
  call.require(call.rank(at) == 2, "a mask that has not a number for each key");
  const Dims s = call.shape(at);
  const Value takes_part = p::ne(call.b, call.value(at), call.scalar(0, call.dtype(at)));
  return p::reshape(call.b, takes_part, {s[0], 1, 1, s[1]});
}

// query, key, value of [batch, tokens, heads * dim], bias of all three, key padding mask, attention bias.
void import_multi_head_attention(NodeCall& call) {
  Builder& b = call.b;
  const int64_t heads = heads_of(call);
  call.require(call.has(1) && call.has(2) && call.rank(0) == 3 && call.rank(1) == 3, "packed queries, keys and values");
  call.require(!call.has(6) && !(call.has(4) && call.has(5)), "past keys, or two masks");
  Value parts[3] = {call.value(0), call.value(1), call.value(2)};
  if (call.has(3)) {
    Dim start = 0;
    for (Value& part : parts) {
      const Dim width = b.shape(part)[2];
      part = p::add(b, part, p::slice(b, call.value(3), p::Range{.axis = 0, .start = start, .end = start + width}));
      start = start + width;
    }
  }
  HeadsAttention options{key_mask(call, 4), call.flag("unidirectional"), call.real("scale", 0)};
  if (call.has(5)) options.mask = call.value(5);
  finish_attention(call, to_heads(b, parts[0], heads), to_heads(b, parts[1], heads), to_heads(b, parts[2], heads),
                   options);
}

// One product makes queries, keys and values.
void import_contrib_attention(NodeCall& call) {
  Builder& b = call.b;
  const int64_t heads = heads_of(call);
  call.require(!call.has(4) && !(call.has(3) && call.has(5)) && call.attribute("qkv_hidden_sizes") == nullptr,
               "past keys, two masks, sizes");
  Value all = product(call, call.value(0), call.value(1));
  if (call.has(2)) all = p::add(b, all, call.compact(2));
  const std::vector<Value> parts = p::split(b, all, 2, 3);
  HeadsAttention options{key_mask(call, 3), call.flag("unidirectional"), call.real("scale", 0)};
  if (call.has(5)) options.mask = call.value(5);
  finish_attention(call, to_heads(b, parts[0], heads), to_heads(b, parts[1], heads), to_heads(b, parts[2], heads),
                   options);
}

// Causal, without a cache: queries of more heads than keys.
void import_group_query_attention(NodeCall& call) {
  Builder& b = call.b;
  const int64_t heads = heads_of(call);
  const int64_t kv_heads = call.integer("kv_num_heads", heads);
  call.require(call.has(1) && call.has(2) && !call.has(3) && !call.has(4), "packed operands and past keys");
  call.require(!call.flag("do_rotary") && kv_heads > 0 && heads % kv_heads == 0, "rotary embeddings inside");
  const Value k = to_heads(b, call.value(1), kv_heads);
  const Value v = to_heads(b, call.value(2), kv_heads);
  call.set(1, k, call.element_type(0));
  call.set(2, v, call.element_type(0));
  finish_attention(call, to_heads(b, call.value(0), heads), repeat_heads(b, k, heads / kv_heads),
                   repeat_heads(b, v, heads / kv_heads), {.causal = true, .scale = call.real("scale", 0)});
}

constexpr RuleEntry kContribRules[] = {
    {"Gelu", import_contrib_gelu},
    {"FastGelu", import_fast_gelu},
    {"BiasGelu", import_bias_gelu},
    {"QuickGelu", import_quick_gelu},
    {"FusedMatMul", import_fused_matmul},
    {"FusedConv", import_fused_conv},
    {"FusedGemm", import_fused_gemm},
    {"EmbedLayerNormalization", import_embed_layer_norm},
    {"SkipLayerNormalization", import_skip_layer_norm},
    {"SkipSimplifiedLayerNormalization", import_skip_rms_norm},
    {"MultiHeadAttention", import_multi_head_attention},
    {"Attention", import_contrib_attention},
    {"GroupQueryAttention", import_group_query_attention},
};

}  // namespace

RuleFamily contrib_rules() { return {"com.microsoft", kContribRules}; }

}  // namespace plimsoll::models::onnx_import
