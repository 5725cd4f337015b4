// Products of matrices in packed panels: a tile of the result stays in registers over the whole sum, and both factors
// are read one vector after the other.
#include "plimsoll/kernels/cpu/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plimsoll/kernels/cpu/simd/panels.cc"
#include <hwy/foreach_target.h>

#include "plimsoll/kernels/cpu/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::simd {
namespace HWY_NAMESPACE {
namespace {

// Sums in registers, and beside them a line of b and a factor of a.
constexpr int kPanelRows = kWidth == 4 ? 4 : 6;
constexpr int kPanelVectors = kManyRegisters ? 4 : 2;
constexpr int kPanelColumns = kPanelVectors * static_cast<int>(kWidth);
static_assert(kPanelRows <= kWidth, "pack_square writes a line of a panel at once, or whole vectors of it");

// ---- packing ----

struct F32Register {
  using Element = float;
  static HWY_INLINE Register load(const float* from) { return hn::LoadU(DF(), from); }
};

template <class From>
struct LowRegister {
  using Element = uint16_t;
  static HWY_INLINE Register load(const uint16_t* from) { return From()(hn::LoadU(DH(), from)); }
};

// The first `count` of a register, `step` apart; the others are 0.
template <class D>
HWY_INLINE Register load_first(const typename D::Element* from, int64_t step, int64_t count) {
  typename D::Element lanes[kWidth] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = from[i * step];
  return D::load(lanes);
}

HWY_INLINE void swap_blocks(Register& a, Register& b, Register& c, Register& d) {
  const Register even_low = hn::InterleaveLower(DF(), a, c);
  const Register even_high = hn::InterleaveUpper(DF(), a, c);
  const Register odd_low = hn::InterleaveLower(DF(), b, d);
  const Register odd_high = hn::InterleaveUpper(DF(), b, d);
  a = hn::InterleaveLower(DF(), even_low, odd_low);
  b = hn::InterleaveUpper(DF(), even_low, odd_low);
  c = hn::InterleaveLower(DF(), even_high, odd_high);
  d = hn::InterleaveUpper(DF(), even_high, odd_high);
}

// kWidth lines at kWidth places, whose lines lie together, to places whose lines do. Vectors overlap where a panel has
// fewer lines: what is written too much is written again, or behind the panel.
template <class D, int kPanel>
HWY_INLINE void pack_square(const typename D::Element* from, int64_t line_step, int64_t lines, int64_t places,
                            float* to) {
  Register rows[kWidth];
  for (int64_t i = 0; i < kWidth; ++i) {
    const typename D::Element* line = from + (i < lines ? i : lines - 1) * line_step;
    rows[i] = places >= kWidth ? D::load(line) : load_first<D>(line, 1, places);
  }
  for (int64_t i = 0; i < kWidth; i += 4) swap_blocks(rows[i], rows[i + 1], rows[i + 2], rows[i + 3]);
#if HWY_MAX_BYTES == 32
  for (int64_t i = 0; i < 4; ++i) {
    const Register first = hn::ConcatLowerLower(DF(), rows[i + 4], rows[i]);
    rows[i + 4] = hn::ConcatUpperUpper(DF(), rows[i + 4], rows[i]);
    rows[i] = first;
  }
#endif
  const int64_t whole = places < kWidth ? places : kWidth;
  for (int64_t i = 0; i < whole; ++i) hn::StoreU(rows[i], DF(), to + i * kPanel);
}

constexpr bool kPacksSquares = kWidth <= 8;  // AVX-512 has no use for it yet

// A panel whose lines are of elements beside each other. Lines of the next one are fetched meanwhile: several in one
// page are more than processors follow by themselves.
template <class D, int kPanel>
HWY_INLINE void pack_along_lines(const Lines& lines, int64_t first, float* to) {
  constexpr int64_t kFetched = 64 / sizeof(typename D::Element);
  const auto* from = static_cast<const typename D::Element*>(lines.from) + first * lines.line_step;
  const int64_t left = lines.count - first;
  for (int64_t place = 0; place < lines.inner; place += kWidth) {
    for (int64_t line = kPanel; place % kFetched == 0 && line < 2 * kPanel && line < left; ++line) {
      hwy::Prefetch(from + line * lines.line_step + place);
    }
    for (int64_t line = 0; line < kPanel && line < left; line += kWidth) {
      pack_square<D, kPanel>(from + line * lines.line_step + place, lines.line_step, left - line, lines.inner - place,
                             to + place * kPanel + line);
    }
  }
}

HWY_INLINE void store_first(float* to, Register x, int64_t count) {
  float lanes[kWidth];
  hn::StoreU(x, DF(), lanes);
  for (int64_t i = 0; i < kWidth && i < count; ++i) to[i] = lanes[i];
}

// Some panels of lines that lie beside each other, at one place: vectors of the whole line, as far as it goes. Where it
// is `exact`, they do not reach behind the panel.
template <class D, int kPanel>
HWY_INLINE void pack_place(const Lines& lines, const typename D::Element* from, int64_t left, int64_t panels,
                           bool exact, float* to) {
  for (int64_t panel = 0; panel < panels; ++panel, to += kPanel * lines.inner) {
    for (int64_t line = panel * kPanel; line < (panel + 1) * kPanel && line < left; line += kWidth) {
      const Register x = left - line >= kWidth ? D::load(from + line) : load_first<D>(from + line, 1, left - line);
      float* at = to + line - panel * kPanel;
      exact ? store_first(at, x, (panel + 1) * kPanel - line) : hn::StoreU(x, DF(), at);
    }
  }
}

// Some panels of lines that lie beside each other: in the order of memory. The last vectors of a panel must not reach
// into the next, which is written by then.
template <class D, int kPanel, int kPanels>
HWY_INLINE void pack_across_lines(const Lines& lines, int64_t first, int64_t panels, float* to) {
  constexpr int64_t kLast = (kWidth - 1) / kPanel;  // places whose vectors would
  const auto* from = static_cast<const typename D::Element*>(lines.from) + first;
  const int64_t left = lines.count - first;
  const bool is_whole = panels == kPanels && left >= kPanels * kPanel + kWidth;
  for (int64_t place = 0; place < lines.inner; ++place, from += lines.inner_step, to += kPanel) {
    const bool exact = place + kLast >= lines.inner;
    if (exact || !is_whole) {
      pack_place<D, kPanel>(lines, from, left, panels, exact, to);
      continue;
    }
    for (int panel = 0; panel < kPanels; ++panel) {
      for (int line = 0; line < kPanel; line += static_cast<int>(kWidth)) {
        hn::StoreU(D::load(from + panel * kPanel + line), DF(), to + panel * kPanel * lines.inner + line);
      }
    }
  }
}

template <class D, int kPanel>
HWY_INLINE void pack_any(const Lines& lines, int64_t first, float* to) {
  const auto* from = static_cast<const typename D::Element*>(lines.from) + first * lines.line_step;
  const int64_t left = lines.count - first;
  for (int64_t place = 0; place < lines.inner; ++place, from += lines.inner_step) {
    for (int64_t line = 0; line < kPanel && line < left; line += kWidth) {
      const int64_t count = left - line < kWidth ? left - line : kWidth;
      hn::StoreU(load_first<D>(from + line * lines.line_step, lines.line_step, count), DF(),
                 to + place * kPanel + line);
    }
  }
}

template <class D, int kPanel>
void pack(const Lines& lines, float* to) {
  constexpr int kTogether = kPanel >= 16 ? 2 : 8;  // panels, so that they read whole cache lines
  const int64_t panels = (lines.count + kPanel - 1) / kPanel;
  const bool across = lines.line_step == 1;
  for (int64_t panel = 0; panel < panels; panel += across ? kTogether : 1) {
    float* at = to + panel * kPanel * lines.inner;
    if (across) {
      const int64_t left = panels - panel;
      pack_across_lines<D, kPanel, kTogether>(lines, panel * kPanel, left < kTogether ? left : kTogether, at);
    } else if (lines.inner_step == 1 && kPacksSquares) {
      pack_along_lines<D, kPanel>(lines, panel * kPanel, at);
    } else {
      pack_any<D, kPanel>(lines, panel * kPanel, at);
    }
  }
}

// ---- multiplying ----

using Sums = Register[kPanelRows][kPanelVectors];

HWY_INLINE void add_place(Sums& sums, const float* a, const float* b) {
  Register line[kPanelVectors];
  for (int v = 0; v < kPanelVectors; ++v) line[v] = hn::LoadU(DF(), b + v * kWidth);
  for (int r = 0; r < kPanelRows; ++r) {
    const Register factor = hn::Set(DF(), a[r]);
    for (int v = 0; v < kPanelVectors; ++v) sums[r][v] = hn::MulAdd(factor, line[v], sums[r][v]);
  }
}

#if HWY_TARGET == HWY_AVX2

constexpr int64_t kPlaces = 4;  // of the sum in one turn of the loop

// Sums over `turns` times kPlaces places, from zero. By hand: compilers that are asked to unroll this mix the places,
// run out of registers, and put copies between them; without, the loop's own instructions are a fifth of all, and
// processors that fetch for two threads at a time can not keep up.
HWY_INLINE void add_turns(const float* a, const float* b, int64_t turns, float* sums) {
#define PLIMSOLL_ROW(at, first, second)                                             \
  "vbroadcastss " at "(%[a]), %%ymm15\n\tvfmadd231ps %%ymm12, %%ymm15, %%ymm" first \
  "\n\tvfmadd231ps %%ymm13, "                                                       \
  "%%ymm15, %%ymm" second "\n\t"
#define PLIMSOLL_PLACE(line, next, a0, a1, a2, a3, a4, a5)                                                        \
  "vmovups " line "(%[b]), %%ymm12\n\tvmovups " next "(%[b]), %%ymm13\n\t" PLIMSOLL_ROW(a0, "0", "1")             \
      PLIMSOLL_ROW(a1, "2", "3") PLIMSOLL_ROW(a2, "4", "5") PLIMSOLL_ROW(a3, "6", "7") PLIMSOLL_ROW(a4, "8", "9") \
          PLIMSOLL_ROW(a5, "10", "11")
#define PLIMSOLL_ZERO(r) "vxorps %%xmm" r ", %%xmm" r ", %%xmm" r "\n\t"
#define PLIMSOLL_KEEP(r, at) "vmovups %%ymm" r ", " at "(%[sums])\n\t"
  asm volatile(  // NOLINT
      PLIMSOLL_ZERO("0") PLIMSOLL_ZERO("1") PLIMSOLL_ZERO("2") PLIMSOLL_ZERO("3") PLIMSOLL_ZERO("4") PLIMSOLL_ZERO("5")
          PLIMSOLL_ZERO("6") PLIMSOLL_ZERO("7") PLIMSOLL_ZERO("8") PLIMSOLL_ZERO("9") PLIMSOLL_ZERO("10")
              PLIMSOLL_ZERO("11") ".p2align 4\n\t1:\n\t" PLIMSOLL_PLACE("0", "32", "0", "4", "8", "12", "16", "20")
                  PLIMSOLL_PLACE("64", "96", "24", "28", "32", "36", "40", "44")
                      PLIMSOLL_PLACE("128", "160", "48", "52", "56", "60", "64", "68") PLIMSOLL_PLACE(
                          "192", "224", "72", "76", "80", "84", "88",
                          "92") "add $96, %[a]\n\tadd $256, %[b]\n\tdec %[turns]\n\tjnz 1b\n\t" PLIMSOLL_KEEP("0", "0")
                          PLIMSOLL_KEEP("1", "32") PLIMSOLL_KEEP("2", "64") PLIMSOLL_KEEP("3", "96")
                              PLIMSOLL_KEEP("4", "128") PLIMSOLL_KEEP("5", "160") PLIMSOLL_KEEP("6", "192")
                                  PLIMSOLL_KEEP("7", "224") PLIMSOLL_KEEP("8", "256") PLIMSOLL_KEEP("9", "288")
                                      PLIMSOLL_KEEP("10", "320") PLIMSOLL_KEEP("11", "352")
      : [a] "+r"(a), [b] "+r"(b), [turns] "+r"(turns)
      : [sums] "r"(sums)
      : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
        "xmm11", "xmm12", "xmm13", "xmm15");
#undef PLIMSOLL_KEEP
#undef PLIMSOLL_ZERO
#undef PLIMSOLL_PLACE
#undef PLIMSOLL_ROW
}

// The sums of the first places, and how many these are.
HWY_INLINE int64_t start_sums(Sums& sums, const float* a, const float* b, int64_t inner) {
  static_assert(kPanelRows == 6 && kPanelVectors == 2);
  float tile[kPanelRows * kPanelColumns];
  const int64_t turns = inner / kPlaces;
  if (turns > 0) add_turns(a, b, turns, tile);
  for (int r = 0; r < kPanelRows; ++r) {
    for (int v = 0; v < kPanelVectors; ++v) {
      sums[r][v] = turns > 0 ? hn::LoadU(DF(), tile + r * kPanelColumns + v * kWidth) : hn::Zero(DF());
    }
  }
  return turns * kPlaces;
}

#else

HWY_INLINE int64_t start_sums(Sums& sums, const float* /*a*/, const float* /*b*/, int64_t /*inner*/) {
  for (auto& row : sums) {
    for (Register& sum : row) sum = hn::Zero(DF());
  }
  return 0;
}

#endif

// What is done to a sum before it is written.
struct Finish {
  bool add, relu;
};

template <class Bias>
HWY_INLINE void write_tile(const Sums& sums, float* c, int64_t c_row, Finish finish, const Bias& bias) {
  HWY_UNROLL(kPanelRows)
  for (int r = 0; r < kPanelRows; ++r) {
    HWY_UNROLL(kPanelVectors)
    for (int v = 0; v < kPanelVectors; ++v) {
      float* at = c + r * c_row + v * kWidth;
      Register sum = bias(sums[r][v], v);
      if (finish.add) sum = hn::Add(sum, hn::LoadU(DF(), at));
      if (finish.relu) sum = hn::IfThenZeroElse(hn::Lt(sum, hn::Zero(DF())), sum);
      hn::StoreU(sum, DF(), at);
    }
  }
}

// A tile of the result, all of whose rows and columns are there.
HWY_INLINE void whole_tile(const PackedProduct& p, const float* a, const float* b, float* c, int64_t c_row,
                           const float* bias) {
  for (int r = 0; r < kPanelRows; ++r) hwy::Prefetch(c + r * c_row);
  Sums sums;
  const int64_t first = start_sums(sums, a, b, p.inner);
  for (int64_t place = first; place < p.inner; ++place) {
    add_place(sums, a + place * kPanelRows, b + place * kPanelColumns);
  }
  const Finish finish{p.add, p.relu};
  if (bias == nullptr) {
    write_tile(sums, c, c_row, finish, [](Register sum, int) HWY_ATTR { return sum; });
  } else {
    write_tile(sums, c, c_row, finish,
               [&](Register sum, int v) HWY_ATTR { return hn::Add(sum, hn::LoadU(DF(), bias + v * kWidth)); });
  }
}

// A tile at the edge, by way of a whole one.
void partial_tile(const PackedProduct& p, const float* a, const float* b, int64_t row, int64_t column) {
  float tile[kPanelRows * kPanelColumns] = {};
  float bias[kPanelColumns] = {};
  const int64_t rows = p.rows - row < kPanelRows ? p.rows - row : kPanelRows;
  const int64_t columns = p.columns - column < kPanelColumns ? p.columns - column : kPanelColumns;
  float* c = p.c + row * p.c_row + column;
  for (int64_t r = 0; p.add && r < rows; ++r) {
    for (int64_t i = 0; i < columns; ++i) tile[r * kPanelColumns + i] = c[r * p.c_row + i];
  }
  for (int64_t i = 0; p.bias != nullptr && i < columns; ++i) bias[i] = p.bias[column + i];
  whole_tile(p, a, b, tile, kPanelColumns, p.bias == nullptr ? nullptr : bias);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < columns; ++i) c[r * p.c_row + i] = tile[r * kPanelColumns + i];
  }
}

// A panel of b stays in the first cache while those of a go by.
void multiply_packed(const PackedProduct& p) {
  for (int64_t column = 0; column < p.columns; column += kPanelColumns) {
    const float* b = p.b + column * p.inner;
    for (int64_t row = 0; row < p.rows; row += kPanelRows) {
      const float* a = p.a + row * p.inner;
      if (row + kPanelRows <= p.rows && column + kPanelColumns <= p.columns) {
        whole_tile(p, a, b, p.c + row * p.c_row + column, p.c_row, p.bias == nullptr ? nullptr : p.bias + column);
      } else {
        partial_tile(p, a, b, row, column);
      }
    }
  }
}

template <class D>
PackedProducts::Pack packing() {
  return {pack<D, kPanelRows>, pack<D, kPanelColumns>};
}

void panels(Functions& functions) {
  functions.packed = {kPanelRows,
                      kPanelColumns,
                      packing<F32Register>(),
                      packing<LowRegister<FromBf16>>(),
                      packing<LowRegister<FromF16>>(),
                      multiply_packed};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll::kernels::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::simd {
void add_panels(Isa isa, Functions& functions) { PLIMSOLL_FOR_ISA(isa, panels)(functions); }
}  // namespace plimsoll::kernels::simd
#endif
