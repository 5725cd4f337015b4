// What attention_mma.cuh is made of: tiles in shared memory, and products of lines in registers with them.
struct Heads {
  i64 batch, heads, queries, keys, dim, width;
  i64 q[4], k[4], v[4], mask[4];
  i32 causal;
  float scale;
};

#define TILE 64
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && D == 64
#define BY_WARPGROUP  // products of four warps together, whose second operand stays in shared memory
#define PITCH D
#define FORWARD_BLOCKS 4  // that a multiprocessor is to hold at a time
#define BACKWARD_BLOCKS 3
#else
#define PITCH (D + 8)  // of a line in shared memory, so that neighbours lie in other banks
#define FORWARD_BLOCKS 1
#define BACKWARD_BLOCKS 1
#endif
#define STEPS (D / 16)
#define LOG2E 1.4426950408889634f
#define LN2 0.6931471805599453f

DEVICE u32 shared_address(const void* at) { return (u32)__cvta_generic_to_shared(at); }

DEVICE void multiply(float* c, const u32* a, u32 b0, u32 b1) {
#ifdef IS_BF16
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

DEVICE u32 packed(float low, float high) {
  u32 both;
#ifdef IS_BF16
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
#else
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
#endif
  return both;
}

DEVICE float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Lines as the second operand: 16 of them from `line` on, 16 elements from `column` on, where a line is a column of the
// product (b[0], b[1] for the first eight lines).
DEVICE void lines_as_columns(const T* tile, int line, int column, u32* b) {
  const int lane = threadIdx.x & 31;
  const T* at = tile + (line + (lane & 7) + (lane >> 4) * 8) * PITCH + column + (lane >> 3 & 1) * 8;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(shared_address(at)));
}
// The same where a line is what is summed over (b[0], b[1] for the first eight elements).
DEVICE void lines_as_rows(const T* tile, int line, int column, u32* b) {
  const int lane = threadIdx.x & 31;
  const T* at = tile + (line + (lane & 15)) * PITCH + column + (lane >> 4) * 8;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(shared_address(at)));
}

// Where eight elements of a line lie in a tile. For warpgroups, which read lines of 128 bytes, the eight pieces of a line
// change places by its number, so that pieces of neighbours lie in other banks.
DEVICE T* piece_of(T* tile, int line, int column) {
#ifdef BY_WARPGROUP
  return tile + line * PITCH + ((column / 8) ^ (line & 7)) * 8;
#else
  return tile + line * PITCH + column;
#endif
}

// A tile of 64 lines from `first` on into shared memory, zeros after `count`. Not waited for.
DEVICE void fetch(T* tile, const T* from, i64 stride, i64 first, i64 count) {
  for (int piece = threadIdx.x; piece < TILE * (D / 8); piece += 128) {
    const int line = piece / (D / 8), column = piece % (D / 8) * 8;
    const bool inside = first + line < count;
    const T* source = from + (inside ? first + line : 0) * stride + column;
    const int bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(piece_of(tile, line, column))), "l"(source),
                 "r"(bytes));
  }
}
DEVICE void commit() { asm volatile("cp.async.commit_group;"); }
template <int LEFT>
DEVICE void arrived() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT));
#ifdef BY_WARPGROUP
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Tiles begin where the pattern of their lines does.
DEVICE T* tiles_in(uint4* memory) {
#ifdef BY_WARPGROUP
  const u32 off = shared_address(memory) & 1023;
  return (T*)((u8*)memory + (off == 0 ? 0 : 1024 - off));
#else
  return (T*)memory;
#endif
}

#ifdef BY_WARPGROUP
#ifdef IS_BF16
#define PRODUCT "{.reg .pred adds; setp.eq.u32 adds, 1, 1; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
#else
#define PRODUCT "{.reg .pred adds; setp.eq.u32 adds, 1, 1; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
#endif
// sums (16 x 64 of each warp) += a (16 x 16 of each) times 16 x 64 of a tile: BY_LINES 0, a line is a column of the
// product; 1, a line is what is summed over.
template <int BY_LINES>
DEVICE void multiply_tile(float (*c)[4], const u32* a, u64 tile) {
  asm volatile(PRODUCT
               "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,"
               "%31}, {%32,%33,%34,%35}, %36, adds, 1, 1, %37;}"
               : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]), "+f"(c[1][2]),
                 "+f"(c[1][3]), "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]), "+f"(c[3][0]), "+f"(c[3][1]),
                 "+f"(c[3][2]), "+f"(c[3][3]), "+f"(c[4][0]), "+f"(c[4][1]), "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]),
                 "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]), "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]),
                 "+f"(c[7][0]), "+f"(c[7][1]), "+f"(c[7][2]), "+f"(c[7][3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(tile), "n"(BY_LINES));
}
// What the units take for a tile: its address, 1024 bytes from eight lines to the next eight, the pattern of 128 bytes.
DEVICE u64 tile_operand(const T* tile) {
  return (u64)((shared_address(tile) & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}
DEVICE void start_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void finish_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
#endif

// 16 lines as the first operand, straight from memory: `line` is the first, zeros after `count`.
DEVICE void first_operand(const T* from, i64 stride, i64 line, i64 count, u32 (*a)[4]) {
  const int lane = threadIdx.x & 31;
  const i64 row = line + (lane >> 2);
  const int column = (lane & 3) * 2;
#pragma unroll
  for (int k = 0; k < STEPS; ++k) {
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const i64 at = row + (part & 1) * 8;
      a[k][part] = at < count ? *(const u32*)(from + at * stride + k * 16 + column + (part >> 1) * 8) : 0;
    }
  }
}

DEVICE void store_lines(T* to, i64 line, i64 count, const float (*sums)[4], float factor0, float factor1) {
  const int lane = threadIdx.x & 31;
  const i64 row = line + (lane >> 2);
  const int column = (lane & 3) * 2;
#pragma unroll
  for (int n = 0; n < D / 8; ++n) {
    if (row < count) *(u32*)(to + row * D + n * 8 + column) = packed(sums[n][0] * factor0, sums[n][1] * factor0);
    if (row + 8 < count) *(u32*)(to + (row + 8) * D + n * 8 + column) = packed(sums[n][2] * factor1, sums[n][3] * factor1);
  }
}

DEVICE float over_four(float x, bool largest) {
#pragma unroll
  for (int step = 1; step <= 2; step <<= 1) {
    const float other = __shfl_xor_sync(0xffffffffu, x, step);
    x = largest ? fmaxf(x, other) : x + other;
  }
  return x;
}

// sums[8 tiles of 8 columns] += a (16 x D) times the 64 lines of a tile, for COUNT pieces of 16 lines.
template <int COUNT>
DEVICE void scores_of(float (*sums)[TILE / 8][4], const u32 (*a)[STEPS][4], const T* tile) {
#ifdef BY_WARPGROUP
  start_products();
#pragma unroll
  for (int r = 0; r < COUNT; ++r) {
#pragma unroll
    for (int k = 0; k < STEPS; ++k) multiply_tile<0>(sums[r], a[r][k], tile_operand(tile) + k * (32 >> 4));
  }
  finish_products();
#else
#pragma unroll
  for (int k = 0; k < STEPS; ++k) {
#pragma unroll
    for (int pair = 0; pair < TILE / 16; ++pair) {
      u32 b[4];
      lines_as_columns(tile, pair * 16, k * 16, b);
#pragma unroll
      for (int r = 0; r < COUNT; ++r) {
        multiply(sums[r][2 * pair], a[r][k], b[0], b[1]);
        multiply(sums[r][2 * pair + 1], a[r][k], b[2], b[3]);
      }
    }
  }
#endif
}

// sums (16 x D) += weights (16 x 64) times the 64 lines of a tile, likewise.
template <int COUNT>
DEVICE void add_weighted(float (*sums)[D / 8][4], const float (*weights)[TILE / 8][4], const T* tile) {
#ifdef BY_WARPGROUP
  u32 all[COUNT][TILE / 16][4];
#pragma unroll
  for (int r = 0; r < COUNT; ++r) {
#pragma unroll
    for (int k = 0; k < TILE / 16; ++k) {
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const float* w = weights[r][2 * k + (part >> 1)] + (part & 1) * 2;
        all[r][k][part] = packed(w[0], w[1]);
      }
    }
  }
  start_products();
#pragma unroll
  for (int r = 0; r < COUNT; ++r) {
#pragma unroll
    for (int k = 0; k < TILE / 16; ++k) multiply_tile<1>(sums[r], all[r][k], tile_operand(tile) + k * (16 * 128 >> 4));
  }
  finish_products();
#else
#pragma unroll
  for (int k = 0; k < TILE / 16; ++k) {
    u32 a[COUNT][4];
#pragma unroll
    for (int r = 0; r < COUNT; ++r) {
      const float (*w)[4] = weights[r];
      a[r][0] = packed(w[2 * k][0], w[2 * k][1]);
      a[r][1] = packed(w[2 * k][2], w[2 * k][3]);
      a[r][2] = packed(w[2 * k + 1][0], w[2 * k + 1][1]);
      a[r][3] = packed(w[2 * k + 1][2], w[2 * k + 1][3]);
    }
#pragma unroll
    for (int pair = 0; pair < D / 16; ++pair) {
      u32 b[4];
      lines_as_rows(tile, k * 16, pair * 16, b);
#pragma unroll
      for (int r = 0; r < COUNT; ++r) {
        multiply(sums[r][2 * pair], a[r], b[0], b[1]);
        multiply(sums[r][2 * pair + 1], a[r], b[2], b[3]);
      }
    }
  }
#endif
}
