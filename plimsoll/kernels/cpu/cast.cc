// Between all dtypes, a block of elements at a time through the widest of its kind: f64 for reals, i64 for the others.
#include <array>
#include <cmath>
#include <limits>

#include "plimsoll/kernels/cpu/support/low_precision.h"
#include "plimsoll/kernels/cpu/support/low_precision_copy.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/kernel.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

constexpr int64_t kBlock = 256;

template <class Wide>
using Reader = void (*)(const std::byte* x, Wide* wide, int64_t count);
template <class Wide>
using Writer = void (*)(const Wide* wide, std::byte* y, int64_t count);

template <class T, class Wide>
void read(const std::byte* x, Wide* wide, int64_t count) {
  const auto* from = reinterpret_cast<const T*>(x);
  for (int64_t i = 0; i < count; ++i) wide[i] = static_cast<Wide>(from[i]);  // NOLINT(bugprone-signed-char-misuse)
}

template <float (*From)(uint16_t)>
void read_half(const std::byte* x, double* wide, int64_t count) {
  const auto* from = reinterpret_cast<const uint16_t*>(x);
  for (int64_t i = 0; i < count; ++i) wide[i] = static_cast<double>(From(from[i]));
}

// The fraction is cut off. What does not fit is the nearest that does; NaN is 0.
int64_t whole(double x) {
  constexpr auto kMost = static_cast<double>(std::numeric_limits<int64_t>::max());
  if (std::isnan(x)) return 0;
  if (x >= kMost) return std::numeric_limits<int64_t>::max();
  if (x <= -kMost) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(x);
}

int64_t whole(int64_t x) { return x; }

template <class T, class Wide>
void write(const Wide* wide, std::byte* y, int64_t count) {
  auto* to = reinterpret_cast<T*>(y);
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      to[i] = static_cast<T>(wide[i]);
    } else {
      to[i] = static_cast<T>(whole(wide[i]));
    }
  }
}

template <uint16_t (*To)(float), class Wide>
void write_half(const Wide* wide, std::byte* y, int64_t count) {
  auto* to = reinterpret_cast<uint16_t*>(y);
  for (int64_t i = 0; i < count; ++i) to[i] = To(static_cast<float>(wide[i]));
}

template <class Wide>
void write_boolean(const Wide* wide, std::byte* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<std::byte>(wide[i] != 0);
}

Reader<double> reals_reader(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return read<double, double>;
    case DType::f16:
      return read_half<from_f16>;
    case DType::bf16:
      return read_half<from_bf16>;
    default:
      return read<float, double>;
  }
}

Reader<int64_t> integers_reader(DType dtype) {
  switch (dtype) {
    case DType::i64:
      return read<int64_t, int64_t>;
    case DType::i32:
      return read<int32_t, int64_t>;
    case DType::i16:
      return read<int16_t, int64_t>;
    case DType::i8:
      return read<int8_t, int64_t>;
    default:
      return read<uint8_t, int64_t>;
  }
}

template <class Wide>
Writer<Wide> writer(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return write<double, Wide>;
    case DType::f32:
      return write<float, Wide>;
    case DType::f16:
      return write_half<to_f16, Wide>;
    case DType::bf16:
      return write_half<to_bf16, Wide>;
    case DType::i64:
      return write<int64_t, Wide>;
    case DType::i32:
      return write<int32_t, Wide>;
    case DType::i16:
      return write<int16_t, Wide>;
    case DType::i8:
      return write<int8_t, Wide>;
    case DType::u8:
      return write<uint8_t, Wide>;
    case DType::boolean:
      return write_boolean<Wide>;
  }
  return nullptr;
}

// The result may lie where the operand does, of the same element size: a block is read before it is written.
template <class Wide>
Kernel through(const KernelCall& call, Reader<Wide> read_block) {
  const Writer<Wide> write_block = writer<Wide>(call.out().dtype);
  const int64_t from_size = element_bytes(call.in(0).dtype);
  const int64_t to_size = element_bytes(call.out().dtype);
  return plain([=, count = call.out().elements(), threads = call.threads](const Memory& m) -> Task {
    return [=, x = m.in<std::byte>(0), y = m.out<std::byte>()] {
      parallel(threads, count, kGrain, [=](int, int64_t begin, int64_t end) {
        std::array<Wide, kBlock> wide;
        for (int64_t i = begin; i < end; i += kBlock) {
          const int64_t size = std::min(kBlock, end - i);
          read_block(x + i * from_size, wide.data(), size);
          write_block(wide.data(), y + i * to_size, size);
        }
      });
    };
  });
}

// The halves of f32, and back, in vectors.
Kernel to_half(const KernelCall& call) {
  return plain([to = call.out(), threads = call.threads](const Memory& m) -> Task {
    return [=, x = m.in<float>(0), y = m.out<std::byte>()] { downcast(to.dtype, x, y, to.elements(), threads); };
  });
}

Kernel from_half(const KernelCall& call) {
  return plain([from = call.in(0), threads = call.threads](const Memory& m) -> Task {
    return [=, x = m.in<std::byte>(0), y = m.out<float>()] { upcast(from, x, y, threads); };
  });
}

Kernel cast(const KernelCall& call) {
  const DType from = call.in(0).dtype;
  const DType to = call.out().dtype;
  if (from == DType::f32 && is_low_precision(to)) return to_half(call);
  if (is_low_precision(from) && to == DType::f32) return from_half(call);
  return is_floating(from) ? through<double>(call, reals_reader(from)) : through<int64_t>(call, integers_reader(from));
}

}  // namespace

void register_cast_cpu(KernelTable& table) { table.add("cast", {cast, contiguous_only, {}, nullptr, any_dtype}); }

}  // namespace plimsoll::kernels
