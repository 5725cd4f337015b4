// What exporters take apart, put together again.
#include <gtest/gtest.h>

#include "pass_check.h"
#include "plimsoll/program/op.h"
#include "plimsoll/program/passes/fuse_activations.h"
#include "plimsoll/program/passes/fuse_attention.h"
#include "plimsoll/program/passes/fuse_norms.h"
#include "plimsoll/program/passes/optimize.h"
#include "plimsoll/program/text.h"
#include "plimsoll/program/train_step.h"

namespace plimsoll::program {
namespace {

constexpr double kRounding = 1e-12;
constexpr double kConstants = 1e-7;  // those that exporters write in f32

// The names of the ops that are left.
std::string ops_after(const std::string& text, const Pass& pass, double tolerance = kRounding) {
  const Program after = check_pass(parse_program(text), pass, tolerance);
  std::string names;
  for (const Op& op : after.ops) names += op.def->name + " ";
  return names;
}

constexpr const char* kX = "input %x: f32[3,17]\n";

TEST(FuseGelu, AsPyTorchExportsIt) {
  check_pass(std::string(kX) + R"(
%root = fill() {value=1.4142135381698608, shape=[]}
%one = fill() {value=1, shape=[]}
%half = fill() {value=0.5, shape=[]}
%a = div(%x, %root)
%b = erf(%a)
%c = add(%b, %one)
%d = mul(%x, %c)
%y = mul(%d, %half)
output %y)",
             fuse_activations, std::string(kX) + "%y = gelu(%x)\noutput %y", kConstants);
}

TEST(FuseGelu, InOtherOrdersAndWithOtherConstants) {
  const std::vector<std::string> forms = {R"(
%a = affine(%x) {scale=0.70710678118654752}
%b = erf(%a)
%c = affine(%b) {scale=0.5, shift=0.5}
%y = mul(%c, %x)
output %y)",
                                          R"(
%h = affine(%x) {scale=0.5}
%a = affine(%x) {scale=0.70710678118654752}
%b = erf(%a)
%c = affine(%b) {shift=1}
%y = mul(%h, %c)
output %y)"};
  for (const std::string& form : forms) EXPECT_EQ(ops_after(kX + form, fuse_activations), "gelu ");
}

TEST(FuseGelu, OfAProduct) {
  EXPECT_EQ(ops_after(std::string(kX) + R"(
%x2 = mul(%x, %x)
%a = affine(%x2) {scale=0.70710678118654752}
%b = erf(%a)
%c = affine(%b) {shift=1}
%d = mul(%x2, %c)
%y = affine(%d) {scale=0.5}
output %y)",
                      fuse_activations),
            "mul gelu ");
}

TEST(FuseGelu, ByTanh) {
  const std::vector<std::string> cubes = {R"(
%cube = pow_scalar(%x) {exponent=3}
%k = affine(%cube) {scale=0.044715}
%s = add(%x, %k)
%u = affine(%s) {scale=0.7978845608028654}
)",
                                          R"(
%square = mul(%x, %x)
%cube = mul(%square, %x)
%k = affine(%cube) {scale=0.044715}
%s = add(%k, %x)
%u = affine(%s) {scale=0.7978845608028654}
)",
                                          R"(
%square = square(%x)
%k = affine(%square) {scale=0.044715, shift=1}
%r = affine(%x) {scale=0.7978845608028654}
%u = mul(%r, %k)
)"};
  for (const std::string& cube : cubes) {
    EXPECT_EQ(ops_after(kX + cube + R"(
%t = tanh(%u)
%g = affine(%t) {shift=1}
%h = affine(%x) {scale=0.5}
%y = mul(%h, %g)
output %y)",
                        fuse_activations),
              "gelu_tanh ");
  }
}

TEST(FuseGelu, NotWithOtherConstantsOrWhereAPartIsReadElsewhere) {
  const std::string other = std::string(kX) + R"(
%a = affine(%x) {scale=0.7}
%b = erf(%a)
%c = affine(%b) {shift=1}
%d = mul(%x, %c)
%y = affine(%d) {scale=0.5}
output %y)";
  check_pass(other, fuse_activations, other);
  const std::string shared = std::string(kX) + R"(
%a = affine(%x) {scale=0.70710678118654752}
%b = erf(%a)
%c = affine(%b) {shift=1}
%d = mul(%x, %c)
%y = affine(%d) {scale=0.5}
output %y
output %b)";
  check_pass(shared, fuse_activations, shared);
}

TEST(FuseSilu, OfXTimesItsSigmoid) {
  EXPECT_EQ(ops_after(std::string(kX) + "%s = sigmoid(%x)\n%y = mul(%s, %x)\noutput %y", fuse_activations), "silu ");
}

constexpr const char* kNorm = "input %x: f32[3,17]\nparameter %w: f32[17]\nparameter %b: f32[17]\n";

TEST(FuseNorms, LayerNormAsExportersWriteIt) {
  check_pass(std::string(kNorm) + R"(
%two = fill() {value=2, shape=[]}
%eps = fill() {value=1e-05, shape=[]}
%m = mean(%x) {axes=[-1], keepdims=true}
%d = sub(%x, %m)
%sq = pow(%d, %two)
%v = mean(%sq) {axes=[-1], keepdims=true}
%ve = add(%v, %eps)
%r = sqrt(%ve)
%n = div(%d, %r)
%s = mul(%n, %w)
%y = add(%s, %b)
output %y)",
             simplify, std::string(kNorm) + "%y = layer_norm(%x, %w, %b) {axis=1}\noutput %y", kRounding);
}

TEST(FuseNorms, WithVarianceAndInverseRootsAndFewerParameters) {
  EXPECT_EQ(ops_after(std::string(kNorm) + R"(
%m = mean(%x) {axes=[1], keepdims=true}
%d = sub(%x, %m)
%v = var(%x) {axes=[1], keepdims=true, correction=0}
%ve = affine(%v) {shift=0.001}
%r = rsqrt(%ve)
%n = mul(%r, %d)
%y = mul(%w, %n)
output %y)",
                      fuse_norms),
            "layer_norm ");
  EXPECT_EQ(ops_after(std::string(kNorm) + R"(
%sq = mul(%x, %x)
%v = mean(%sq) {axes=[-1], keepdims=true}
%ve = affine(%v) {shift=1e-06}
%q = sqrt(%ve)
%r = reciprocal(%q)
%n = mul(%x, %r)
%y = mul(%n, %w)
output %y)",
                      fuse_norms),
            "rms_norm ");
}

TEST(FuseNorms, NotOverOtherDimensionsOrWithTheSampleVariance) {
  for (const char* spread : {"%v = var(%x) {axes=[1], keepdims=true}\n%m = mean(%x) {axes=[1], keepdims=true}",
                             "%v = var(%x) {axes=[0], keepdims=true, correction=0}\n"
                             "%m = mean(%x) {axes=[0], keepdims=true}"}) {
    const std::string stays = std::string(kNorm) + spread + R"(
%d = sub(%x, %m)
%ve = affine(%v) {shift=0.001}
%r = sqrt(%ve)
%y = div(%d, %r)
output %y)";
    check_pass(stays, fuse_norms, stays);
  }
}

constexpr const char* kHeads = "input %q: f32[2,3,5,4]\ninput %k: f32[2,3,7,4]\ninput %v: f32[2,3,7,6]\n";

TEST(FuseAttention, WithTheScaleAtTheScores) {
  check_pass(std::string(kHeads) + R"(
%two = fill() {value=2, shape=[]}
%kt = transpose(%k) {axes=[0,1,3,2]}
%s = matmul(%q, %kt)
%scaled = div(%s, %two)
%p = softmax(%scaled)
%y = matmul(%p, %v)
output %y)",
             fuse_attention, std::string(kHeads) + "%y = attention(%q, %k, %v) {scale=0.5}\noutput %y", kRounding);
}

TEST(FuseAttention, WithTheScaleAtQAndKAndAMask) {
  check_pass(std::string(kHeads) + R"(
input %mask: f32[5,7]
%qs = affine(%q) {scale=0.5}
%ks = affine(%k) {scale=0.25}
%s = matmul(%qs, %ks) {transpose_b=true}
%masked = add(%s, %mask)
%p = softmax(%masked) {axis=3}
%y = matmul(%p, %v)
output %y)",
             fuse_attention,
             std::string(kHeads) + "input %mask: f32[5,7]\n%y = attention(%q, %k, %v, %mask) {scale=0.125}\noutput %y",
             kRounding);
}

TEST(FuseAttention, WithKeysThatWereTransposedWithTheHeads) {
  check_pass(R"(
input %q: f32[2,3,5,4]
input %k: f32[2,7,3,4]
input %v: f32[2,3,7,6]
%kt = transpose(%k) {axes=[0,2,3,1]}
%s = matmul(%q, %kt)
%p = softmax(%s)
%y = matmul(%p, %v)
output %y)",
             simplify, R"(
input %q: f32[2,3,5,4]
input %k: f32[2,7,3,4]
input %v: f32[2,3,7,6]
%transpose = transpose(%k) {axes=[0,2,1,3]}
%y = attention(%q, %transpose, %v) {scale=1}
output %y)",
             kRounding);
}

TEST(FuseAttention, WithAMaskThatChooses) {
  EXPECT_EQ(ops_after(std::string(kHeads) + R"(
input %causal: f32[5,7]
%low = fill() {value=-5, shape=[]}
%see = gt(%causal, %low)
%never = fill() {value=-inf, shape=[]}
%s = matmul(%q, %k) {transpose_b=true}
%masked = where(%see, %s, %never)
%p = softmax(%masked)
%y = matmul(%p, %v)
output %y)",
                      fuse_attention),
            "fill gt attention ");
}

// As exporters write it: the mask is made between the scores and the softmax.
TEST(FuseAttention, WithZerosForQueriesThatSeeNoKey) {
  const auto text = [](const char* replaced) {
    return std::string(kHeads) + R"(
input %causal: f32[5,7]
%low = fill() {value=-5, shape=[]}
%see = gt(%causal, %low)
%never = fill() {value=-inf, shape=[]}
%zero = fill() {value=0, shape=[]}
%s = matmul(%q, %k) {transpose_b=true}
%mask = where(%see, %zero, %never)
%masked = add(%s, %mask)
%p = softmax(%masked)
%isnan = ne(%p, %p)
%none = fill() {value=)" +
           replaced + R"(, shape=[]}
%seen = where(%isnan, %none, %p)
%y = matmul(%seen, %v)
output %y)";
  };
  EXPECT_EQ(ops_after(text("0"), fuse_attention), "fill gt fill fill where attention ");
  EXPECT_EQ(ops_after(text("1"), fuse_attention), "fill gt fill fill matmul where add softmax ne fill where matmul ");
}

TEST(FuseAttention, NotWhereTheScoresAreSmallerThanTheResult) {
  const std::string stays = R"(
input %q: f32[2,3,5,4]
input %k: f32[2,3,2,4]
input %v: f32[2,3,2,6]
%s = matmul(%q, %k) {transpose_b=true}
%p = softmax(%s)
%y = matmul(%p, %v)
output %y)";
  check_pass(stays, fuse_attention, stays);
}

TEST(FuseAttention, WithKeysAndValuesOfOneHeadForAll) {
  EXPECT_EQ(ops_after(R"(
input %q: f32[2,3,5,4]
input %k: f32[2,1,4,7]
input %v: f32[2,1,7,6]
%s = matmul(%q, %k)
%p = softmax(%s)
%y = matmul(%p, %v)
output %y)",
                      fuse_attention),
            "transpose expand expand attention ");
}

// The gradient of the parts would be no number where a query sees no key.
TEST(FuseAttention, OfSmallScoresWhereZerosReplaceWhatIsNoNumber) {
  EXPECT_EQ(ops_after(R"(
input %q: f32[2,3,5,4]
input %k: f32[2,3,2,4]
input %v: f32[2,3,2,6]
%s = matmul(%q, %k) {transpose_b=true}
%p = softmax(%s)
%isnan = ne(%p, %p)
%none = fill() {value=0, shape=[]}
%seen = where(%isnan, %none, %p)
%y = matmul(%seen, %v)
output %y)",
                      fuse_attention),
            "attention ");
}

// A block of a transformer in parts: layer norm, attention over heads of 4, a GELU.
constexpr const char* kBlock = R"(
input %x: f32[batch,sequence,8]
parameter %ln: f32[8]
parameter %wqkv: f32[24,8]
parameter %bqkv: f32[24]
parameter %wo: f32[8,8]
%m = mean(%x) {axes=[-1], keepdims=true}
%d = sub(%x, %m)
%sq = square(%d)
%v = mean(%sq) {axes=[-1], keepdims=true}
%ve = affine(%v) {shift=1e-05}
%r = sqrt(%ve)
%n = div(%d, %r)
%normal = mul(%n, %ln)
%qkv = matmul(%normal, %wqkv) {transpose_b=true}
%biased = add(%qkv, %bqkv)
%parts = reshape(%biased) {shape=[batch,sequence,6,4]}
%heads = transpose(%parts) {axes=[0,2,1,3]}
%q, %k, %value = split(%heads) {axis=1, sizes=[2,2,2]}
%s = matmul(%q, %k) {transpose_b=true}
%scaled = affine(%s) {scale=0.5}
%p = softmax(%scaled)
%seen = matmul(%p, %value)
%rows = transpose(%seen) {axes=[0,2,1,3]}
%joined = reshape(%rows) {shape=[batch,sequence,8]}
%o = linear(%joined, %wo)
%a = affine(%o) {scale=0.70710678118654752}
%e = erf(%a)
%g = affine(%e) {scale=0.5, shift=0.5}
%y = mul(%o, %g)
%loss = mean(%y)
output %loss)";

TEST(Simplify, PutsABlockOfATransformerTogether) {
  const Program block = bind(parse_program(kBlock), {{"batch", 2}, {"sequence", 9}});
  const Program after = check_pass(block, simplify, kRounding);
  std::string names;
  for (const Op& op : after.ops) names += op.def->name + " ";
  EXPECT_EQ(names, "layer_norm linear reshape transpose split attention transpose reshape linear gelu mean ");
}

TEST(Simplify, BeforeAutodiffLeavesLessToKeepForTheBackwardPass) {
  const auto step = [](Program model) {
    const Value loss = model.find("loss");
    const Program whole = training_step(std::move(model), loss, {.optimizer = Optimizer::sgd});
    return bind(whole, {{"batch", 2}, {"sequence", 65}});
  };
  const Program parts = step(parse_program(kBlock));
  const Program single = check_pass(
      parts, [&](const Program&) { return step(simplify(parse_program(kBlock))); }, 1e-10);
  EXPECT_LT(2 * peak_bytes(single), peak_bytes(parts));
}

}  // namespace
}  // namespace plimsoll::program
