// Pools of images whose channels lie in blocks or last, in f32, f16 and bf16: bit by bit what the reference gives.
// Elements are small whole numbers, many of them equal, so that sums are exact in every dtype.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "plimsoll/kernels/cpu/support/low_precision.h"
#include "plimsoll/kernels/prepare.h"
#include "plimsoll/program/evaluate.h"
#include "plimsoll/program/random.h"
#include "plimsoll/program/text.h"
#include "tests/kernels/against_reference.h"

namespace plimsoll {
namespace {

using kernels::TensorDesc;
using program::Program;
using program::Value;

struct alignas(kernels::kAlignment) Line {
  std::byte bytes[kernels::kAlignment];
};

// A tensor [batch, channels, ..] in memory as it says that it lies.
struct Image {
  TensorDesc tensor;
  std::vector<Line> lines;

  explicit Image(const TensorDesc& layout)
      : tensor(layout), lines(static_cast<size_t>(layout.bytes() / kernels::kAlignment + 1)) {}
  std::byte* data() { return lines[0].bytes; }

  // Where the element lies that is at this place in row-major order.
  int64_t offset(int64_t place) const {
    const int64_t channels = tensor.shape[1];
    const int64_t plane_size = tensor.elements() / (tensor.shape[0] * channels);
    const int64_t width = tensor.channels_last ? channels : kernels::kChannelBlock;
    const int64_t plane = place / plane_size;
    return (plane / width * plane_size + place % plane_size) * width + plane % width;
  }
  // The first `elements` of it again and again.
  void repeat(int64_t elements) {
    const int64_t bytes = elements * element_bytes(tensor.dtype);
    for (int64_t i = bytes; i < tensor.bytes(); i += bytes) std::memcpy(data() + i, data(), static_cast<size_t>(bytes));
  }
  bool repeats(int64_t elements) {
    const int64_t bytes = elements * element_bytes(tensor.dtype);
    return std::memcmp(data(), data() + bytes, static_cast<size_t>(tensor.bytes() - bytes)) == 0;
  }
  std::byte* at(int64_t place) { return data() + offset(place) * element_bytes(tensor.dtype); }

  void set(int64_t place, double value) {
    const auto x = static_cast<float>(value);
    if (tensor.dtype == DType::f32) *reinterpret_cast<float*>(at(place)) = x;
    if (tensor.dtype == DType::bf16) *reinterpret_cast<uint16_t*>(at(place)) = kernels::to_bf16(x);
    if (tensor.dtype == DType::f16) *reinterpret_cast<uint16_t*>(at(place)) = kernels::to_f16(x);
  }
  double get(int64_t place) {
    if (tensor.dtype == DType::f32) return *reinterpret_cast<float*>(at(place));
    if (tensor.dtype == DType::bf16) return kernels::from_bf16(*reinterpret_cast<uint16_t*>(at(place)));
    if (tensor.dtype == DType::f16) return kernels::from_f16(*reinterpret_cast<uint16_t*>(at(place)));
    return tensor.dtype == DType::u8 ? static_cast<double>(*at(place)) : *reinterpret_cast<int32_t*>(at(place));
  }
};

struct LayoutCase {
  DType dtype;
  bool channels_last;
};

// The values of a program, as its kernels leave them when its images lie so. What is given may be for fewer samples;
// the others are the same then.
class Run {
 public:
  Run(const Program& program, const program::Arrays<double>& given, LayoutCase layout, int threads)
      : program_(program), layout_(layout) {
    for (const program::ValueInfo& value : program.values) images_.emplace_back(tensor_of(value));
    for (const Value input : program.inputs) {
      const std::vector<double>& reals = given.at(program[input].name).reals;
      for (size_t i = 0; i < reals.size(); ++i) image(input).set(static_cast<int64_t>(i), reals[i]);
      image(input).repeat(static_cast<int64_t>(reals.size()));
    }
    for (const program::Op& op : program.ops) run(op, threads);
  }

  Image& image(Value value) { return images_[static_cast<size_t>(value.index)]; }

 private:
  TensorDesc tensor_of(const program::ValueInfo& value) const {
    const bool floats = is_floating(value.type.dtype);
    TensorDesc tensor = kernels::contiguous(floats ? layout_.dtype : value.type.dtype, value.type.shape.shape());
    tensor.blocked = true;
    tensor.channels_last = floats && layout_.channels_last;
    return tensor;
  }

  void run(const program::Op& op, int threads) {
    const program::OwnedOpCall op_call(program_, op);
    kernels::KernelCall call{*op_call, {}, {}, {}, threads};
    kernels::Memory memory;
    for (const Value input : op.inputs) {
      call.inputs.push_back(image(input).tensor);
      memory.inputs.push_back(image(input).data());
    }
    for (const Value output : op.outputs) {
      call.outputs.push_back(output ? image(output).tensor : TensorDesc{});
      call.requested.push_back(static_cast<bool>(output));
      memory.outputs.push_back(output ? image(output).data() : nullptr);
    }
    const kernels::Kernel kernel = kernels::prepare_call(call, {.threads = threads});
    std::vector<Line> scratch(static_cast<size_t>(kernel.scratch_bytes / kernels::kAlignment + 1));
    memory.scratch = scratch[0].bytes;
    kernel.bind(memory)();
  }

  const Program& program_;
  LayoutCase layout_;
  std::vector<Image> images_;
};

// From -3 to 3, and some of them no numbers or infinite.
program::Arrays<double> drawn_values(const Program& program) {
  program::Arrays<double> values = random_values(program, {.low = -3.5, .high = 3.5});
  for (auto& [name, array] : values) {
    for (size_t i = 0; i < array.reals.size(); ++i) {
      array.reals[i] = std::round(array.reals[i]) + 0.0;
      const uint32_t luck = program::random_bits(2, 0, i) % 64;
      if (name == "x" && luck == 0) array.reals[i] = std::nan("");
      if (name == "x" && luck < 6 && luck > 0) array.reals[i] = -std::numeric_limits<double>::infinity();
    }
  }
  return values;
}

Program pool_of(int64_t batch, const std::string& sample, const std::string& pool) {
  return with_gradients(fmt::format("input %x: f32[{},{}]\n%y, %i = {}\noutput %y\n", batch, sample, pool));
}

void expect_equal(Image& found, const std::vector<double>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const double at = found.get(static_cast<int64_t>(i));
    ASSERT_TRUE(at == expected[i] || (std::isnan(at) && std::isnan(expected[i])))
        << at << " at " << i << ", expected " << expected[i];
  }
  ASSERT_TRUE(found.repeats(static_cast<int64_t>(expected.size())));
}

// Of `batch` samples that are equal, or of two that are not.
void expect_as_reference(const std::string& sample, const std::string& pool, const std::vector<LayoutCase>& layouts,
                         int64_t batch = 0) {
  const Program reference = pool_of(batch == 0 ? 2 : 1, sample, pool);
  const auto values = drawn_values(reference);
  const auto expected = program::evaluate<double>(reference, values);
  const Program program = pool_of(batch == 0 ? 2 : batch, sample, pool);
  for (const auto& [dtype, channels_last] : layouts) {
    for (const int threads : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{} of {}[{}], channels last: {}, {} threads", pool, name(dtype), sample, channels_last,
                               threads));
      Run run(program, values, {dtype, channels_last}, threads);
      for (const Value value : program.outputs) {
        SCOPED_TRACE(program[value].name);
        expect_equal(run.image(value), expected.values[static_cast<size_t>(value.index)].reals);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

const std::vector<LayoutCase> kLayouts = {
    {DType::f32, false}, {DType::f16, false}, {DType::bf16, false}, {DType::bf16, true}};

TEST(Pools, OfChannelsBesideEachOtherAreExact) {
  for (const auto& [shape, pool] : {
           std::pair("32,9,7", "max_pool(%x) {kernel=[2], stride=[2]}"),
           std::pair("48,8,8", "max_pool(%x) {kernel=[2], stride=[2], padding=[1]}"),
           std::pair("16,9,8", "max_pool(%x) {kernel=[4], stride=[4], ceil_mode=true}"),
           std::pair("112,5,6", "max_pool(%x) {kernel=[3,2], stride=[3,2]}"),
           std::pair("32,12", "max_pool(%x) {kernel=[2], stride=[3]}"),
           std::pair("16,5,6,7", "max_pool(%x) {kernel=[2], stride=[2]}"),
           std::pair("32,9,9", "max_pool(%x) {kernel=[2], stride=[2], dilation=[3]}"),
           std::pair("64,9,11", "max_pool(%x) {kernel=[3], stride=[2], padding=[1]}"),
           std::pair("32,9,9", "max_pool(%x) {kernel=[17], padding=[8], stride=[1]}"),
           std::pair("32,9,9", "max_pool(%x) {kernel=[2], dilation=[2], stride=[1]}"),
           std::pair("32,8,6", "adaptive_max_pool(%x) {size=[4,2]}"),
           std::pair("32,8,6", "adaptive_max_pool(%x) {size=[3,4]}"),
       }) {
    expect_as_reference(shape, pool, kLayouts);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// The gradients of these are written past the caches.
TEST(Pools, OfManyImagesAreExact) {
  expect_as_reference("32,64,63", "max_pool(%x) {kernel=[2], stride=[2]}", {{DType::bf16, true}}, 66);
  expect_as_reference("32,64,63", "max_pool(%x) {kernel=[3], stride=[2]}", {{DType::bf16, true}}, 66);
  expect_as_reference("16,64,63", "max_pool(%x) {kernel=[2], stride=[2]}", {{DType::f32, false}}, 66);
}

}  // namespace
}  // namespace plimsoll
