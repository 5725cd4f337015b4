#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/base/error.h"
#include "plimsoll/device/cuda/paper.h"
#include "plimsoll/kernels/device.h"
#include "plimsoll/kernels/prepare.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/program/text.h"
#include "plimsoll/run/session.h"
#include "tests/kernels/against_reference.h"
#include "tests/test_device.h"

namespace plimsoll {
namespace {

using program::parse_program;

// y = op(x ..) and all gradients, on odd shapes.
void check(const std::string& text, const Comparison& comparison = {}) {
  SCOPED_TRACE(text);
  expect_agreement_in_all_precisions(text, comparison);
}

const std::vector<std::string> kShapes = {"[1]", "[31]", "[257]", "[3,17]", "[2,3,5]", "[3,1,17,2]", "[40000]"};

void check_unary(const std::string& op, const Comparison& comparison = {}) {
  for (const std::string& shape : kShapes) {
    check(fmt::format("input %x: f32{}\n%y = {}\noutput %y\n", shape, op), comparison);
  }
}

TEST(CpuKernels, ComputeElementByElement) {
  for (const char* op : {"relu(%x)",         "leaky_relu(%x)", "clamp(%x) {low=-0.5, high=0.25}",
                         "hard_sigmoid(%x)", "sigmoid(%x)",    "tanh(%x)",
                         "exp(%x)",          "elu(%x)",        "softplus(%x)",
                         "silu(%x)",         "gelu(%x)",       "gelu_tanh(%x)",
                         "mish(%x)",         "hard_swish(%x)", "sin(%x)",
                         "cos(%x)",          "erf(%x)",        "abs(%x)",
                         "square(%x)",       "neg(%x)",        "affine(%x) {scale=2.5, divisor=3, shift=0.5}"}) {
    check_unary(op);
  }
  for (const char* op : {"sqrt(%x)", "rsqrt(%x)", "reciprocal(%x)", "log(%x)", "pow_scalar(%x) {exponent=1.5}"}) {
    check_unary(op, {.low = 0.25, .high = 2, .tolerance = 1e-4});
  }
  for (const char* op : {"sign", "floor", "ceil", "round"}) {
    expect_agreement(parse_program(fmt::format("input %x: f32[3,17]\n%y = {}(%x)\noutput %y\n", op)),
                     {.low = -3, .high = 3});
  }
}

TEST(CpuKernels, BroadcastTwoOperands) {
  const std::vector<std::pair<std::string, std::string>> shapes = {
      {"[3,17]", "[3,17]"}, {"[3,17]", "[17]"}, {"[3,17]", "[3,1]"},  {"[1,17]", "[3,1]"},
      {"[2,3,5]", "[]"},    {"[]", "[2,3,5]"},  {"[4,1,3]", "[5,1]"}, {"[100,401]", "[401]"}};
  for (const auto& [x, z] : shapes) {
    for (const char* op : {"add", "sub", "mul", "div", "maximum", "minimum"}) {
      check(fmt::format("input %x: f32{}\ninput %z: f32{}\n%y = {}(%x, %z)\noutput %y\n", x, z, op),
            {.low = 0.5, .high = 2, .tolerance = 1e-4});
    }
    for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge"}) {
      expect_agreement(
          parse_program(fmt::format("input %x: f32{}\ninput %z: f32{}\n%y = {}(%x, %z)\noutput %y\n", x, z, op)));
    }
  }
}

TEST(CpuKernels, ReadViewsAsTheyLie) {
  check("input %x: f32[5,7]\ninput %z: f32[7,5]\n%t = transpose(%x) {axes=[1,0]}\n%y = mul(%t, %z)\noutput %y\n");
  check("input %x: f32[5,7]\n%t = transpose(%x) {axes=[1,0]}\n%y = sigmoid(%t)\noutput %y\n");
  check(
      "input %x: f32[5,7]\n%t = transpose(%x) {axes=[1,0]}\n%r = reshape(%t) {shape=[35]}\n%y = exp(%r)\noutput %y\n");
  check("input %x: f32[5,1]\n%e = expand(%x) {shape=[5,9]}\n%y = tanh(%e)\noutput %y\n");
  check("input %x: f32[6,8]\n%s = slice(%x) {starts=[1,2], sizes=[3,3], steps=[2,2]}\n%y = exp(%s)\noutput %y\n");
  check(
      "input %x: f32[4,9]\n%a, %b, %c = split(%x) {axis=1, parts=3}\n%y = mul(%a, %c)\n%w = add(%y, %b)\noutput %w\n");
  check("input %a: f32[2,3,4]\ninput %b: f32[2,5,4]\n%y = concat(%a, %b) {axis=1}\noutput %y\n");
}

TEST(CpuKernels, SumOverAnyDimensions) {
  for (const char* axes : {"[]", "[0]", "[1]", "[2]", "[0,1]", "[0,2]", "[1,2]", "[0,1,2]"}) {
    for (const char* op : {"sum", "mean"}) {
      check(fmt::format("input %x: f32[7,19,31]\n%y = {}(%x) {{axes={}}}\noutput %y\n", op, axes), {.tolerance = 1e-4});
    }
  }
  check("input %x: f32[7,19]\n%t = transpose(%x) {axes=[1,0]}\n%y = sum(%t) {axes=[0]}\noutput %y\n");
}

// Batches become rows, and in gradients a longer sum, where they lie one behind the other, and stay batches elsewhere.
TEST(CpuKernels, MultiplyBatchesByOneMatrix) {
  const Comparison loose = {.tolerance = 1e-4};
  for (const std::string shape : {"[3,5,7]", "[2,3,5,7]", "[3,1,7]", "[1,5,7]"}) {
    const std::string operand = fmt::format("input %a: f32{}\n", shape);
    const std::string rows = shape == "[3,1,7]" ? "1" : "5";
    check(operand + "input %b: f32[7,4]\n%y = matmul(%a, %b)\noutput %y\n", loose);
    check(operand + "input %b: f32[" + rows + ",4]\n%y = matmul(%a, %b) {transpose_a=true}\noutput %y\n", loose);
    const char* axes = shape == "[2,3,5,7]" ? "[1,0,2,3]" : "[1,0,2]";
    check(operand + fmt::format("%t = transpose(%a) {{axes={}}}\n", axes) +
              "input %b: f32[7,4]\n%y = matmul(%t, %b)\noutput %y\n",
          loose);
  }
  check("input %a: f32[2,3,5,7]\ninput %b: f32[3,7,4]\n%y = matmul(%a, %b)\noutput %y\n", loose);
}

TEST(CpuKernels, TakeNoCopyOfEachBatchToSumOverAll) {
  const auto scratch = [](const char* batch) {
    return kernels::prepare(
               program::parse_program(fmt::format("input %a: f32[64,16,32]\ninput %b: f32[64,16,48]\n"
                                                  "%y = matmul_sum(%a, %b) {{transpose_a=true, batch={}}}\noutput %y\n",
                                                  batch)))
        .ops.back()
        .kernel.scratch_bytes;
  };
  constexpr int64_t kOfEach = 64 * 32 * 48 * 4;
  EXPECT_GE(scratch("[64]"), 0);
  EXPECT_LT(scratch("[]"), kOfEach / 2);
}

TEST(CpuKernels, MultiplyMatrices) {
  const Comparison loose = {.tolerance = 1e-4};
  for (const char* flags : {"", "{transpose_b=true}"}) {
    const std::string b = std::string(flags).empty() ? "[19,31]" : "[31,19]";
    check(fmt::format("input %a: f32[17,19]\ninput %b: f32{}\n%y = matmul(%a, %b) {}\noutput %y\n", b, flags), loose);
  }
  check("input %a: f32[19,17]\ninput %b: f32[19,5]\n%y = matmul(%a, %b) {transpose_a=true}\noutput %y\n", loose);
  check("input %a: f32[2,3,5,7]\ninput %b: f32[2,3,7,4]\n%y = matmul(%a, %b)\noutput %y\n", loose);
  check("input %a: f32[3,5,7]\ninput %b: f32[7,4]\n%y = matmul(%a, %b)\noutput %y\n", loose);
  check("input %a: f32[2,1,5,7]\ninput %b: f32[3,7,4]\n%y = matmul(%a, %b)\noutput %y\n", loose);
  check("input %x: f32[6,5,17]\ninput %w: f32[31,17]\ninput %b: f32[31]\n%y = linear(%x, %w, %b)\noutput %y\n", loose);
  check("input %x: f32[1,17]\ninput %w: f32[1,17]\n%y = linear(%x, %w)\noutput %y\n", loose);
  check("input %x: f32[257,129]\ninput %w: f32[65,129]\ninput %b: f32[65]\n%y = linear(%x, %w, %b)\noutput %y\n",
        loose);
}

TEST(CpuKernels, Convolve) {
  const auto conv = [](const char* x, const char* w, const char* bias, const char* options) {
    const std::string with = fmt::format("input %x: f32{}\ninput %w: f32{}\n", x, w);
    const std::string call = bias[0] == 0 ? "conv(%x, %w)" : "conv(%x, %w, %b)";
    const std::string declared = bias[0] == 0 ? "" : fmt::format("input %b: f32{}\n", bias);
    check(fmt::format("{}{}%y = {} {}\noutput %y\n", with, declared, call, options), {.tolerance = 2e-4});
  };
  conv("[2,3,9,11]", "[5,3,3,3]", "[5]", "{padding=[1]}");
  conv("[2,3,9,11]", "[5,3,3,2]", "", "{stride=[2], padding=[1]}");
  conv("[1,16,8,8]", "[32,16,1,1]", "", "");
  conv("[2,4,9,9]", "[6,2,3,3]", "[6]", "{groups=2, padding=[1]}");
  conv("[2,8,9,9]", "[8,1,3,3]", "", "{groups=8, padding=[1]}");
  conv("[2,3,13,13]", "[4,3,3,3]", "", "{dilation=[2], padding=[2,1,0,3]}");
  conv("[2,3,17]", "[4,3,5]", "[4]", "{padding=[2]}");
  conv("[1,2,5,6,7]", "[3,2,2,3,2]", "", "{stride=[1,2,1]}");
  conv("[2,16,10,10]", "[16,16,3,3]", "[16]", "{padding=[1], stride=[2]}");
  // Gradients by unfolding, of some samples at a time.
  conv("[6,12,2,2]", "[24,12,3,3]", "", "{stride=[2], padding=[1]}");
  conv("[6,12,2,3]", "[20,12,3,3]", "", "{padding=[1,2,2,1], dilation=[1,2]}");
  conv("[4,3,64,48]", "[48,3,16,16]", "", "{stride=[16]}");
  conv("[4,16,64,48]", "[48,16,16,16]", "", "{stride=[16]}");
  conv("[3,5,9]", "[7,5,3]", "", "{dilation=[3], padding=[2]}");
  conv("[2,5,3,4,2]", "[7,5,2,3,2]", "", "{padding=[1], dilation=[1,2,1]}");
  check(
      "input %x: f32[2,5,4,3]\ninput %w: f32[5,4,2,2]\ninput %b: f32[4]\n"
      "%y = conv_transpose(%x, %w, %b) {stride=[2]}\noutput %y\n",
      {.tolerance = 2e-4});
  check(
      "input %x: f32[2,4,5,5]\ninput %w: f32[4,3,3,3]\n"
      "%y = conv_transpose(%x, %w) {stride=[2], padding=[1], output_padding=[1]}\noutput %y\n",
      {.tolerance = 2e-4});
}

TEST(CpuKernels, Pool) {
  const auto pool = [](const char* x, const char* call) {
    check(fmt::format("input %x: f32{}\n%y = {}\noutput %y\n", x, call));
  };
  for (const std::string op : {"max_pool", "avg_pool"}) {
    pool("[2,3,9,11]", (op + "(%x) {kernel=[3], stride=[2], padding=[1]}").c_str());
    pool("[2,3,9,11]", (op + "(%x) {kernel=[2], stride=[2]}").c_str());
    pool("[2,3,9,11]", (op + "(%x) {kernel=[3,2], stride=[2,3], padding=[1], ceil_mode=true}").c_str());
    pool("[2,3,17]", (op + "(%x) {kernel=[3], dilation=[2]}").c_str());
    pool("[1,2,5,6,7]", (op + "(%x) {kernel=[2], stride=[2]}").c_str());
    pool("[1,1,40,40]", (op + "(%x) {kernel=[17], stride=[5]}").c_str());
  }
  pool("[2,3,9,11]", "avg_pool(%x) {kernel=[3], stride=[2], padding=[1], count_include_pad=false}");
  for (const char* size : {"[1]", "[2,3]", "[9,11]"}) {
    pool("[2,3,9,11]", fmt::format("adaptive_avg_pool(%x) {{size={}}}", size).c_str());
    pool("[2,3,9,11]", fmt::format("adaptive_max_pool(%x) {{size={}}}", size).c_str());
  }
}

TEST(CpuKernels, Normalise) {
  const std::string affine = "input %w: f32[17]\ninput %b: f32[17]\n";
  const Comparison loose = {.tolerance = 2e-4};
  check("input %x: f32[31,17]\n" + affine + "%y = layer_norm(%x, %w, %b)\noutput %y\n", loose);
  check("input %x: f32[2,3,17]\n%y = layer_norm(%x)\noutput %y\n", loose);
  check("input %x: f32[600,17]\ninput %w: f32[17]\n%y = rms_norm(%x, %w)\noutput %y\n", loose);
  check("input %x: f32[5,17]\n" + affine + "%y = batch_norm(%x, %w, %b)\noutput %y\n", loose);
  check("input %x: f32[3,17,5,7]\n" + affine + "%y = batch_norm(%x, %w, %b)\noutput %y\n", loose);
  check("input %x: f32[2,3,9]\n%y = batch_norm(%x)\noutput %y\n", loose);
}

TEST(CpuKernels, TakeSoftmaxAlongAnyDimension) {
  for (const char* op : {"softmax", "log_softmax"}) {
    for (const char* axis : {"0", "1", "-1"}) {
      check(fmt::format("input %x: f32[5,17,31]\n%y = {}(%x) {{axis={}}}\noutput %y\n", op, axis),
            {.low = -5, .high = 5, .tolerance = 1e-4});
    }
  }
}

TEST(CpuKernels, ComputeLosses) {
  for (const char* reduction : {"mean", "sum", "none"}) {
    for (const char* more : {"", ", label_smoothing=0.1"}) {
      check(fmt::format("input %x: f32[31,17]\ninput %t: i64[31]\n%y = cross_entropy(%x, %t) {{reduction={}{}}}\n"
                        "output %y\n",
                        reduction, more),
            {.tolerance = 1e-4});
      check(fmt::format("input %x: f32[3,5,4,6]\ninput %t: i64[3,4,6]\n"
                        "%y = cross_entropy(%x, %t) {{axis=1, ignored_index=2, reduction={}{}}}\noutput %y\n",
                        reduction, more),
            {.tolerance = 1e-4});
    }
    for (const char* loss : {"mse_loss", "l1_loss", "huber_loss", "bce_with_logits_loss", "bce_loss"}) {
      check(fmt::format("input %x: f32[31,17]\ninput %t: f32[31,17]\n%y = {}(%x, %t) {{reduction={}}}\noutput %y\n",
                        loss, reduction),
            {.low = 0.1, .high = 0.9, .tolerance = 2e-4});
    }
  }
}

TEST(CpuKernels, AttendByTiles) {
  const auto attend = [](int64_t queries, int64_t keys, int64_t dim, int64_t width, const char* options) {
    check(fmt::format("input %q: f32[2,3,{},{}]\ninput %k: f32[2,3,{},{}]\ninput %v: f32[2,3,{},{}]\n"
                      "%y = attention(%q, %k, %v) {}\noutput %y\n",
                      queries, dim, keys, dim, keys, width, options),
          {.tolerance = 1e-4});
  };
  attend(5, 5, 3, 3, "{causal=true}");
  attend(130, 130, 16, 16, "{causal=true}");
  attend(49, 65, 17, 5, "");
  attend(1, 200, 64, 32, "{scale=0.25}");
  check(
      "input %x: f32[2,70,36]\n%q, %k, %v = split(%x) {axis=2, parts=3}\n"
      "%q1 = reshape(%q) {shape=[2,70,3,4]}\n%q2 = transpose(%q1) {axes=[0,2,1,3]}\n"
      "%k1 = reshape(%k) {shape=[2,70,3,4]}\n%k2 = transpose(%k1) {axes=[0,2,1,3]}\n"
      "%v1 = reshape(%v) {shape=[2,70,3,4]}\n%v2 = transpose(%v1) {axes=[0,2,1,3]}\n"
      "%y = attention(%q2, %k2, %v2) {causal=true}\noutput %y\n",
      {.tolerance = 1e-4});
}

TEST(CpuKernels, TakeRowsOfTables) {
  check("input %w: f32[11,17]\ninput %i: i64[5,7]\n%y = embedding(%w, %i)\noutput %y\n", {.tolerance = 1e-4});
  check("input %x: f32[3,11,4]\ninput %i: i64[9]\n%y = gather(%x, %i) {axis=1}\noutput %y\n", {.tolerance = 1e-4});
}

TEST(CpuKernels, DropTheSameElementsAsTheReference) {
  for (const char* shape : {"[257]", "[3,17]", "[40001]"}) {
    check(
        fmt::format("input %x: f32{}\ninput %s: i64[]\n%y = dropout(%x, %s) {{rate=0.3, stream=7, offset=3}}\n"
                    "output %y\n",
                    shape));
  }
}

TEST(CpuKernels, UpdateParameters) {
  for (const char* op : {"sgd(%w, %g, %r) {weight_decay=0.01}", "sgd(%w, %g, %r, %c)"}) {
    expect_agreement(
        parse_program(fmt::format("input %g: f32[3,17]\ninput %r: f32[]\ninput %c: f32[]\n"
                                  "parameter %w: f32[3,17]\n%n = {} @update\n",
                                  op)));
  }
  for (const char* nesterov : {"true", "false"}) {
    expect_agreement(parse_program(
        fmt::format("input %g: f32[20000]\ninput %r: f32[]\nparameter %w: f32[20000]\nstate %v: f32[20000]\n"
                    "%n, %m = momentum(%w, %g, %v, %r) {{nesterov={}, weight_decay=0.1}} @update\n",
                    nesterov)));
  }
  for (const char* op : {"adam", "adamw"}) {
    expect_agreement(parse_program(fmt::format(
                         "input %g: f32[20000]\ninput %r: f32[]\nparameter %w: f32[20000]\nstate %m: f32[20000]\n"
                         "state %s: f32[20000]\nstate %t: i64[]\n%next = next_step(%t) @update\n"
                         "%n, %m2, %s2 = {}(%w, %g, %m, %s, %next, %r) {{weight_decay=0.1}} @update\n",
                         op)),
                     {.low = 0.1, .high = 1, .tolerance = 1e-4});
  }
  expect_agreement(
      parse_program("input %a: f32[3,17]\ninput %b: f32[31]\n%n = global_norm(%a, %b)\n"
                    "%s = clip_scale(%n) {max_norm=0.5}\noutput %s\n"));
}

TEST(CpuKernels, ScaleTheLossAndSkipUpdatesThatAreNoNumber) {
  const auto scaled = parse_program(
      "input %n: f32[]\nstate %s: i64[2]\n%f = loss_scale(%s)\n%u = unscale(%f, %n)\n"
      "%next = next_loss_scale(%s, %n) @update\noutput %u\n");
  auto values = random_values(scaled, {});
  for (const double norm : {2.0, static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    for (const int64_t steps : {0, 7, 1999}) {
      values["n"].reals = {norm};
      values["s"].ints = {-3, steps};
      expect_agreement(scaled, values, 0);
    }
  }
  const auto update = parse_program(
      "input %g: f32[17]\ninput %r: f32[]\ninput %c: f32[]\nparameter %w: f32[17]\nstate %m: f32[17]\n"
      "state %q: f32[17]\nstate %t: i64[]\n%n, %m2, %q2 = adam(%w, %g, %m, %q, %t, %r, %c) @update\n");
  values = random_values(update, {});
  values["c"].reals = {NAN};
  expect_agreement(update, values, 0);
}

TEST(CpuKernels, SayWhichIndexIsOutOfRange) {
  if (compared_device().empty() || cuda::CompileOnly::architecture() != nullptr) GTEST_SKIP() << "nothing is computed";
  const auto program = parse_program("input %w: f32[11,3]\ninput %i: i64[5]\n%y = embedding(%w, %i)\noutput %y\n");
  auto values = random_values(program, {});
  values["i"].ints[3] = 11;
  run::Session session(program, {.device = compared_device()}, compared_budget());
  load(session.executor(), values);
  try {
    session.executor().step();
    FAIL();
  } catch (const ArgumentError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("embedding %y: index 11 at place 3 ")) << text;
    EXPECT_TRUE(text.ends_with("is out of range, expected 0 to 10")) << text;
  }
}

TEST(CpuKernels, AreThereForAllOps) {
  for (const program::OpDef& def : program::op_table().all()) {
    EXPECT_NE(kernels::cpu_kernels().find(def.name), nullptr) << def.name;
  }
}

TEST(CpuKernels, RefuseWhatTheyCannotDoAndSayWhat) {
  const auto refusal = [](const char* text) -> std::string {
    try {
      kernels::prepare(parse_program(text));
    } catch (const UnsupportedError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("input %x: f64[3]\n%y = exp(%x)\noutput %y\n"),
            "exp %y: x is f64[3]; this kernel computes in f32, f16 and bf16: ask for one of these as --precision");
  EXPECT_THROW(kernels::kernels_of("abacus"), ArgumentError);
  EXPECT_THROW(kernels::thread_count({.threads = -1}), ArgumentError);
  EXPECT_THROW(kernels::thread_count({.threads = 1 << 20}), ArgumentError);
}

}  // namespace
}  // namespace plimsoll
