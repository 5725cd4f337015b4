// What all kernels share: the element types, reading and writing them, walking strided operands, sums over a block.
// Kernels compute in f32 (f64 and integers in their own kind) and are specialised by macros that stand before the text.
typedef unsigned char u8;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
struct f16 {
  unsigned short bits;
};
struct bf16 {
  unsigned short bits;
};
struct boolean {
  u8 value;
};

#define DEVICE static __device__ __forceinline__
#define KERNEL extern "C" __global__ void
#define INFINITE __int_as_float(0x7f800000)
#define NOT_A_NUMBER __int_as_float(0x7fffffff)

template <class T>
struct Wide {
  typedef i64 type;
};
template <>
struct Wide<f32> {
  typedef float type;
};
template <>
struct Wide<f16> {
  typedef float type;
};
template <>
struct Wide<bf16> {
  typedef float type;
};
template <>
struct Wide<f64> {
  typedef double type;
};

DEVICE float wide(f32 x) { return x; }
DEVICE double wide(f64 x) { return x; }
DEVICE float wide(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
DEVICE float wide(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
DEVICE i64 wide(i64 x) { return x; }
DEVICE i64 wide(i32 x) { return x; }
DEVICE i64 wide(i16 x) { return x; }
DEVICE i64 wide(i8 x) { return x; }
DEVICE i64 wide(u8 x) { return x; }
DEVICE i64 wide(boolean x) { return x.value != 0; }

template <class T>
struct Narrow {
  template <class W>
  static __device__ __forceinline__ T of(W x) {
    return (T)x;
  }
};
template <>
struct Narrow<bf16> {
  template <class W>
  static __device__ __forceinline__ bf16 of(W x) {
    bf16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"((float)x));
    return y;
  }
};
template <>
struct Narrow<f16> {
  template <class W>
  static __device__ __forceinline__ f16 of(W x) {
    f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"((float)x));
    return y;
  }
};
template <>
struct Narrow<boolean> {
  template <class W>
  static __device__ __forceinline__ boolean of(W x) {
    boolean y;
    y.value = x != 0;
    return y;
  }
};
template <class T, class W>
DEVICE T narrow(W x) {
  return Narrow<T>::of(x);
}

// ---- eight elements at once ----

template <int BYTES>
struct Block16 {
  uint4 part[BYTES / 16];
};
template <>
struct Block16<8> {
  uint2 part;
};

template <class T>
DEVICE bool fits_vectors(const T* at) {
  return ((u64)at & (sizeof(T) == 1 ? 7 : 15)) == 0;
}

// Eight elements in a row, whose first is on a vector's boundary: at once.
template <class T>
DEVICE void load_vector(const T* from, typename Wide<T>::type* to) {
  union {
    Block16<8 * sizeof(T)> block;
    T element[8];
  } all;
  all.block = *(const Block16<8 * sizeof(T)>*)from;
#pragma unroll
  for (int k = 0; k < 8; ++k) to[k] = wide(all.element[k]);
}
template <class T, class W>
DEVICE void store_vector(T* to, const W* from) {
  union {
    Block16<8 * sizeof(T)> block;
    T element[8];
  } all;
#pragma unroll
  for (int k = 0; k < 8; ++k) all.element[k] = narrow<T>(from[k]);
  *(Block16<8 * sizeof(T)>*)to = all.block;
}
// The same for any address.
template <class T>
DEVICE void load8(const T* from, typename Wide<T>::type* to) {
  if (fits_vectors(from)) return load_vector(from, to);
#pragma unroll
  for (int k = 0; k < 8; ++k) to[k] = wide(from[k]);
}
template <class T, class W>
DEVICE void store8(T* to, const W* from) {
  if (fits_vectors(to)) return store_vector(to, from);
#pragma unroll
  for (int k = 0; k < 8; ++k) to[k] = narrow<T>(from[k]);
}
// The same where all of a launch's addresses are on such boundaries (ALIGNED, which binding finds out) and what is added
// to them is whole vectors: without a look at each.
#ifdef ALIGNED
template <class T>
DEVICE void read8(const T* from, typename Wide<T>::type* to) {
  load_vector(from, to);
}
template <class T, class W>
DEVICE void write8(T* to, const W* from) {
  store_vector(to, from);
}
#else
template <class T>
DEVICE void read8(const T* from, typename Wide<T>::type* to) {
  load8(from, to);
}
template <class T, class W>
DEVICE void write8(T* to, const W* from) {
  store8(to, from);
}
#endif
DEVICE bool is_aligned(const void* at) { return ((u64)at & 15) == 0; }

// ---- strided operands ----

// Where element i of a row-major index space lies: sizes and strides of its dimensions, merged where they can be.
struct Walk {
  i32 rank;
  i32 pad;
  i64 size[8];
  i64 stride[8];
};

DEVICE i64 place(const Walk& walk, u64 i) {
  i64 at = 0;
  if (i < 0xffffffffULL) {
    u32 rest = (u32)i;
    for (int d = walk.rank - 1; d > 0; --d) {
      const u32 size = (u32)walk.size[d];
      const u32 next = rest / size;
      at += (i64)(rest - next * size) * walk.stride[d];
      rest = next;
    }
    return walk.rank > 0 ? at + (i64)rest * walk.stride[0] : 0;
  }
  for (int d = walk.rank - 1; d > 0; --d) {
    const u64 next = i / (u64)walk.size[d];
    at += (i64)(i - next * (u64)walk.size[d]) * walk.stride[d];
    i = next;
  }
  return walk.rank > 0 ? at + (i64)i * walk.stride[0] : 0;
}

// ---- over a block, in a fixed order ----

struct Add {
  template <class W>
  static __device__ __forceinline__ W of(W a, W b) {
    return a + b;
  }
};
struct Multiply {
  template <class W>
  static __device__ __forceinline__ W of(W a, W b) {
    return a * b;
  }
};
// NaN wins.
struct Larger {
  template <class W>
  static __device__ __forceinline__ W of(W a, W b) {
    return (a > b || a != a) ? a : b;
  }
};
struct Smaller {
  template <class W>
  static __device__ __forceinline__ W of(W a, W b) {
    return (a < b || a != a) ? a : b;
  }
};

template <class W>
DEVICE W shuffled(W x, int lane_mask) {
  return __shfl_xor_sync(0xffffffffu, x, lane_mask);
}

template <class Op, class W>
DEVICE W over_warp(W x) {
#pragma unroll
  for (int step = 16; step > 0; step >>= 1) x = Op::of(x, shuffled(x, step));
  return x;
}

// All threads of the block get the result. `shared` has 32 elements; the block is whole warps.
template <class Op, class W>
DEVICE W over_block(W x, W* shared, W none) {
  x = over_warp<Op>(x);
  const int warps = blockDim.x >> 5;
  if (warps == 1) return x;
  __syncthreads();
  if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = x;
  __syncthreads();
  x = (threadIdx.x & 31) < warps ? shared[threadIdx.x & 31] : none;
  return over_warp<Op>(x);
}

// ---- random bits (program/random.h) ----

struct Words {
  u32 word[4];
};

DEVICE Words philox(u64 block, u64 stream, u64 seed) {
  u32 c0 = (u32)block, c1 = (u32)(block >> 32), c2 = (u32)stream, c3 = (u32)(stream >> 32);
  u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u32 even = 0xD2511F53u * c0, even_high = __umulhi(0xD2511F53u, c0);
    const u32 odd = 0xCD9E8D57u * c2, odd_high = __umulhi(0xCD9E8D57u, c2);
    c0 = odd_high ^ c1 ^ k0;
    c1 = odd;
    c2 = even_high ^ c3 ^ k1;
    c3 = even;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  Words words;
  words.word[0] = c0;
  words.word[1] = c1;
  words.word[2] = c2;
  words.word[3] = c3;
  return words;
}

DEVICE u32 random_bits(u64 seed, u64 stream, u64 index) {
  const Words words = philox(index / 4, stream, seed);
  const u32 which = (u32)(index & 3);
  return which == 0 ? words.word[0] : which == 1 ? words.word[1] : which == 2 ? words.word[2] : words.word[3];
}

// ---- what kernels find wrong in data ----

// As device/stream.h has it.
struct FaultRecord {
  i32 op;
  i32 operand;
  i64 value;
  i64 place;
  i64 least;
  i64 most;
};
// Where this op reports; `to` may be null.
struct Fault {
  FaultRecord* to;
  i32 op;
  i32 operand;
};

// The first that finds something fills in the record.
DEVICE void report(const Fault& fault, i64 value, i64 found_at, i64 least, i64 most) {
  if (fault.to == 0 || atomicCAS(&fault.to->op, 0, fault.op + 1) != 0) return;
  fault.to->operand = fault.operand;
  fault.to->value = value;
  fault.to->place = found_at;
  fault.to->least = least;
  fault.to->most = most;
}

// ---- functions ----

DEVICE float sigmoid(float x) { return 1 / (1 + expf(-x)); }
DEVICE float normal_below(float x) { return 0.5f * (1 + erff(x * 0.70710678118654752f)); }
DEVICE float normal_at(float x) { return expf(-0.5f * x * x) * 0.39894228040143268f; }
DEVICE float gelu_inner(float x) { return 0.79788456080286536f * (x + 0.044715f * x * x * x); }
DEVICE float gelu_tanh_slope(float x) {
  const float t = tanhf(gelu_inner(x));
  const float inner_slope = 0.79788456080286536f * (1 + 3 * 0.044715f * x * x);
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * inner_slope;
}
DEVICE float clamped(float x, float low, float high) { return x < low ? low : x > high ? high : x; }
DEVICE float softplus(float x, float beta) { return (fmaxf(beta * x, 0.0f) + log1pf(expf(-fabsf(beta * x)))) / beta; }
DEVICE float mish_slope(float x) {
  const float t = tanhf(softplus(x, 1.0f));
  return t + x * sigmoid(x) * (1 - t * t);
}
template <class W>
DEVICE W sign(W x) {
  return (W)((x > 0) - (x < 0));
}
template <class W>
DEVICE W absolute(W x) {
  return x < 0 ? -x : x;
}
DEVICE float held_log(float x) { return fmaxf(logf(x), -100.0f); }
template <class W>
DEVICE W power(W x, W z) {
  return (W)pow((double)x, (double)z);
}
template <>
__device__ __forceinline__ float power<float>(float x, float z) {
  return powf(x, z);
}
DEVICE float huber(float d, float delta) {
  const float size = fabsf(d);
  return size <= delta ? 0.5f * d * d : delta * (size - 0.5f * delta);
}
