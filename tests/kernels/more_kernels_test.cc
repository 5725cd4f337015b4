// Kernels of ops that few models use, against the reference: odd shapes, views, dtypes, nothing, NaN.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "plimsoll/base/error.h"
#include "plimsoll/device/cuda/paper.h"
#include "plimsoll/kernels/cpu/support/low_precision.h"
#include "plimsoll/kernels/prepare.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/program/text.h"
#include "plimsoll/run/session.h"
#include "tests/kernels/against_reference.h"
#include "tests/test_device.h"

namespace plimsoll {
namespace {

using program::parse_program;

// The call on %x of this type, with gradients where it has them.
void check(const std::string& type, const std::string& op_call, const Comparison& comparison = {.tolerance = 1e-4}) {
  const std::string text = fmt::format("input %x: {}\n%y = {}\noutput %y\n", type, op_call);
  SCOPED_TRACE(text);
  if (type[0] == 'f' && op_call.find("arg") != 0) {
    expect_agreement_in_all_precisions(text, comparison);
  } else {
    expect_agreement(parse_program(text), comparison);
  }
}

TEST(MoreKernels, ReduceOtherThanBySums) {
  for (const char* op : {"max", "min", "prod", "norm2", "var"}) {
    for (const char* axes : {"[]", "[0]", "[1]", "[0,2]", "[-1]"}) {
      check("f32[3,17,5]", fmt::format("{}(%x) {{axes={}}}", op, axes), {.low = 0.5, .high = 1.5, .tolerance = 1e-4});
    }
    check("f64[7,3]", fmt::format("{}(%x) {{axes=[1], keepdims=true}}", op), {.tolerance = 1e-9});
    check("f32[2,257,31]", fmt::format("{}(%x) {{axes=[1]}}", op), {.low = 0.9, .high = 1.1, .tolerance = 1e-3});
  }
  for (const char* op : {"max", "min", "prod"}) {
    check("i64[5,7]", fmt::format("{}(%x) {{axes=[0]}}", op));
    check("i32[5,7]", fmt::format("{}(%x)", op));
  }
  check("f32[1,3]", "var(%x) {axes=[0]}");  // of one element: not a number
}

TEST(MoreKernels, WorkAlongADimension) {
  for (const char* axis : {"0", "1", "-1"}) {
    for (const char* op_call : {"argmax(%x) {{axis={}}}", "argmin(%x) {{axis={}, keepdims=true}}",
                                "cumsum(%x) {{axis={}}}", "cumsum(%x) {{axis={}, exclusive=true, reverse=true}}"}) {
      check("f32[3,17,31]", fmt::format(fmt::runtime(op_call), axis));
      check("i64[3,5,2]", fmt::format(fmt::runtime(op_call), axis));
    }
    for (const char* more : {"", ", largest=false"}) {
      for (const char* type : {"f32[3,17,5]", "f64[3,5,4]"}) {
        const std::string text = fmt::format(
            "input %x: {}\n%y, %i = top_k(%x) {{k=2, axis={}{}}}\noutput %y\noutput %i\n", type, axis, more);
        expect_agreement(with_gradients(text));
      }
    }
  }
}

TEST(MoreKernels, PadAndTile) {
  for (const char* mode : {"constant, value=1.5", "constant", "reflect", "edge"}) {
    check("f32[3,5,7]", fmt::format("pad(%x) {{before=[1,0,3], after=[2,1,0], mode={}}}", mode));
    check("f32[9]", fmt::format("pad(%x) {{before=[4], after=[5], mode={}}}", mode));
  }
  check("i64[2,3]", "pad(%x) {before=[0,1], after=[1,0], value=7.0}");
  check("u8[2,3]", "pad(%x) {before=[0,1], after=[1,0]}");
  check("f32[0,3]", "pad(%x) {before=[2,0], after=[0,0], value=3.0}");
  check("f32[3,1,5]", "tile(%x) {repeats=[2,3,1]}");
  check("i64[4]", "tile(%x) {repeats=[3]}");
  check("f32[4]", "tile(%x) {repeats=[0]}");
}

TEST(MoreKernels, Resample) {
  for (const char* how : {"mode=nearest", "mode=linear", "mode=linear, align_corners=true"}) {
    check("f32[2,3,7,5]", fmt::format("resize(%x) {{size=[13,4], {}}}", how));
    check("f32[1,2,9]", fmt::format("resize(%x) {{size=[5], {}}}", how));
    check("f64[1,2,3,4,2]", fmt::format("resize(%x) {{size=[4,2,5], {}}}", how), {.tolerance = 1e-9});
  }
  check("f32[2,3,64,48]", "resize(%x) {size=[128,96], scale=2.0, mode=nearest}");
}

TEST(MoreKernels, NormaliseInGroups) {
  const std::string affine = "input %w: f32[6]\ninput %b: f32[6]\n";
  for (const int groups : {1, 2, 6}) {
    for (const char* shape : {"[3,6,5,7]", "[2,6]", "[40,6,31,33]"}) {
      expect_agreement(
          with_gradients(fmt::format("input %x: f32{}\n{}%y = group_norm(%x, %w, %b) {{groups={}}}\noutput %y\n", shape,
                                     affine, groups)),
          {.tolerance = 3e-4});
    }
  }
  check("f32[3,6,5]", "group_norm(%x) {groups=3}", {.tolerance = 3e-4});
}

TEST(MoreKernels, TakeAndPutSingleElements) {
  const std::string x = "input %x: f32[3,11,4]\n";
  for (const auto& [axis, index] :
       {std::pair("0", "[5,7,4]"), std::pair("1", "[3,20,2]"), std::pair("-1", "[1,1,9]")}) {
    const std::string indices = fmt::format("input %i: i64{}\n", index);
    expect_agreement(
        with_gradients(fmt::format("{}{}%y = gather_elements(%x, %i) {{axis={}}}\noutput %y\n", x, indices, axis)));
    for (const char* add : {"true", "false"}) {
      const std::string text =
          fmt::format("{}{}input %u: f32{}\n%y = scatter_elements(%x, %i, %u) {{axis={}, add={}}}\noutput %y\n", x,
                      indices, index, axis, add);
      expect_agreement(add[0] == 't' ? with_gradients(text) : parse_program(text));
    }
  }
  for (const char* dtype : {"f32", "f64", "i64", "i32", "bool", "u8"}) {
    check("i64[3,2]", fmt::format("one_hot(%x) {{depth=5, dtype={}}}", dtype));
  }
}

TEST(MoreKernels, SayWhichElementIsOutOfRange) {
  if (compared_device().empty() || cuda::CompileOnly::architecture() != nullptr) GTEST_SKIP() << "nothing is computed";
  const auto error_of = [](const std::string& text, int64_t bad) -> std::string {
    const auto program = parse_program(text);
    auto values = random_values(program, {});
    values["i"].ints[1] = bad;
    run::Session session(program, {.device = compared_device()}, compared_budget());
    load(session.executor(), values);
    try {
      session.executor().step();
    } catch (const ArgumentError& error) {
      std::string said = error.what();
      if (const size_t at = said.find(" of i "); at != std::string::npos) said.erase(at, 5);  // cards name the operand
      return said;
    }
    return "";
  };
  EXPECT_EQ(error_of("input %x: f32[3,4]\ninput %i: i64[2,4]\n%y = gather_elements(%x, %i)\noutput %y\n", -4),
            "gather_elements %y: index -4 at place 1 is out of range, expected -3 to 2");
  EXPECT_EQ(error_of("input %x: f32[3]\ninput %i: i64[2]\ninput %u: f32[2]\n"
                     "%y = scatter_elements(%x, %i, %u)\noutput %y\n",
                     3),
            "scatter_elements %y: index 3 at place 1 is out of range, expected -3 to 2");
  EXPECT_EQ(error_of("input %i: i64[3]\n%y = one_hot(%i) {depth=4}\noutput %y\n", -1),
            "one_hot %y: index -1 at place 1 is out of range, expected 0 to 3");
}

TEST(MoreKernels, DropWeightsOfAttention) {
  const auto attend = [](const std::string& mask, const std::string& operand, const char* causal) {
    expect_agreement(with_gradients(fmt::format(
                         "input %q: f32[2,3,7,5]\ninput %k: f32[2,3,9,5]\ninput %v: f32[2,3,9,4]\ninput %s: i64[]\n{}"
                         "%y = attention_dropout(%q, %k, %v, %s{}) "
                         "{{rate=0.3, stream=5, offset=11, causal={}}}\noutput %y\n",
                         mask, operand, causal)),
                     {.tolerance = 1e-4});
  };
  attend("", "", "true");
  attend("input %m: f32[3,1,9]\n", ", %m", "false");
  attend("input %m: bool[2,1,7,9]\n", ", %m", "false");
  expect_agreement(with_gradients("input %q: f32[8,4,33,16]\ninput %k: f32[8,4,65,16]\ninput %v: f32[8,4,65,16]\n"
                                  "input %s: i64[]\n%y = attention_dropout(%q, %k, %v, %s) {rate=0.5, stream=1}\n"
                                  "output %y\n"),
                   {.tolerance = 1e-4});
}

TEST(MoreKernels, ReadViews) {
  for (const char* op_call :
       {"max(%t) {axes=[1]}", "prod(%t) {axes=[0]}", "var(%t) {axes=[0,1]}", "argmax(%t) {axis=0}",
        "cumsum(%t) {axis=1}", "pad(%t) {before=[1,2], after=[0,1], mode=reflect}", "tile(%t) {repeats=[2,1]}",
        "cast(%t) {dtype=f64}"}) {
    const std::string text =
        fmt::format("input %x: f32[5,7]\n%t = transpose(%x) {{axes=[1,0]}}\n%y = {}\noutput %y\n", op_call);
    expect_agreement(op_call[0] == 'a' ? parse_program(text) : with_gradients(text), {.tolerance = 1e-4});
  }
}

TEST(MoreKernels, MoveShardsIntoPacksAndBack) {
  for (const int ranks : {1, 2, 3, 8, 64}) {
    const int first = (21 + ranks - 1) / ranks;
    expect_agreement(program::parse_program(fmt::format(
        "input %x: f32[7,3]\ninput %y: f32[2,20]\n%pack = pack_shards(%x, %y) {{ranks={0}}}\n"
        "%copy = clone(%y)\n%back = take_shards(%copy, %pack) {{at={1}, ranks={0}}}\noutput %pack\noutput %back\n",
        ranks, first)));
  }
}

TEST(MoreKernels, CastBetweenDTypes) {
  for (const char* from : {"f32", "f64", "i64", "i32", "u8", "bool"}) {
    for (const char* to : {"f32", "f64", "i64", "i32", "i8", "u8", "bool"}) {
      const double high = from[0] == 'f' ? 100.0 : 1.0;
      const std::string text = fmt::format(
          "input %x: {}[3,171]\n%y = cast(%x) {{dtype={}}}\n%z = cast(%y) "
          "{{dtype=i64}}\noutput %z\n",
          from, to);
      expect_agreement(parse_program(text), {.low = 0, .high = high});
    }
  }
  check("f32[40001]", "cast(%x) {dtype=f64}");
}

// As PyTorch: NaN is the extreme of what it is in, and stands where it was found.
TEST(MoreKernels, LetNanWin) {
  const auto program = parse_program(
      "input %x: f32[3,4]\n%a = max(%x) {axes=[1]}\n%b = min(%x) {axes=[1]}\n%c = argmax(%x)\n%d = argmin(%x)\n"
      "%e = prod(%x) {axes=[1]}\n%f, %g = top_k(%x) {k=2}\noutput %a\noutput %b\noutput %c\noutput %d\noutput %e\n"
      "output %f\noutput %g\n");
  auto values = random_values(program, {});
  values["x"].reals = {1, NAN, 3, 2, INFINITY, -INFINITY, 0, 1, NAN, 1, NAN, 5};
  expect_agreement(program, values, 0);
  const auto found = program::evaluate<double>(program, values);
  EXPECT_EQ(found.outputs.at("c").ints, (std::vector<int64_t>{1, 0, 0}));
  EXPECT_EQ(found.outputs.at("d").ints, (std::vector<int64_t>{1, 1, 0}));
}

TEST(MoreKernels, RoundHalves) {
  using namespace kernels;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {  // all of them come back as they were
    const auto half = static_cast<uint16_t>(bits);
    ASSERT_TRUE(std::isnan(from_f16(half)) || to_f16(from_f16(half)) == half) << bits;
    ASSERT_TRUE(std::isnan(from_bf16(half)) || to_bf16(from_bf16(half)) == half) << bits;
  }
  EXPECT_TRUE(std::isnan(from_f16(to_f16(NAN))));
  EXPECT_TRUE(std::isnan(from_bf16(to_bf16(NAN))));
  EXPECT_EQ(from_f16(to_f16(1 + 0x1p-11F)), 1);  // half way: to even
  EXPECT_EQ(from_f16(to_f16(1 + 3 * 0x1p-11F)), 1 + 0x1p-9F);
  EXPECT_EQ(from_f16(to_f16(65519.0F)), 65504);
  EXPECT_EQ(from_f16(to_f16(65520.0F)), INFINITY);
  EXPECT_EQ(from_f16(to_f16(0x1p-25F)), 0);
  EXPECT_EQ(from_f16(to_f16(0x1.8p-25F)), 0x1p-24F);
  EXPECT_EQ(from_bf16(to_bf16(1 + 0x1p-8F)), 1);
  EXPECT_EQ(from_bf16(to_bf16(-3.4e38F)), -INFINITY);
}

TEST(MoreKernels, AreNamedWhenThereIsNone) {
  const program::OpDef def{.name = "made_up", .inputs = {"x"}, .infer = nullptr};
  const program::Type types[] = {{DType::f32, {3}}};
  const program::OpCall op_call{def, types, {}, types, "y"};
  try {
    kernels::prepare_call({op_call, {}, {}, {}, 1}, {});
    FAIL();
  } catch (const UnsupportedError& error) {
    EXPECT_NE(std::string(error.what()).find("cpu has no kernel for made_up"), std::string::npos);
  }
}

}  // namespace
}  // namespace plimsoll
