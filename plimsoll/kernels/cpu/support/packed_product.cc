#include "plimsoll/kernels/cpu/support/packed_product.h"

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/kernels/cpu/support/isa.h"
#include "plimsoll/kernels/cpu/support/low_precision_copy.h"
#include "plimsoll/kernels/cpu/support/parallel.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

using simd::Lines;
using simd::PackedProducts;

// Blocks that are packed together: rows of a by the sum fit the second cache, a panel of b by the sum the first. All of
// a is packed once for each block of columns, so these are many.
constexpr int64_t kRows = 96;
constexpr int64_t kColumns = 1024;
constexpr int64_t kFewColumns = 128;  // where scratch counts more than speed
constexpr int64_t kInner = 384;
constexpr int64_t kInnerTurn = 4;  // places that the loop over them takes at a time
// Where the result is not f32, its sums have to be kept until they are whole: of few rows, with all of b along the sum
// in panels, or where that is too much of many rows, for which b is packed again and again.
constexpr int64_t kWhole = 1 << 20;         // of b in panels, for a thread
constexpr int64_t kWholeOfAll = 1 << 21;    // likewise, for all
constexpr int64_t kSums = 480 * 512;        // else
constexpr int64_t kFewest = 48;             // rows and columns that are worth packing
constexpr int64_t kFewestLow = 8;           // likewise where the other way is to upcast all of a factor first
constexpr int64_t kFewestInner = 8;         // likewise of the sum
constexpr int64_t kWorthThreads = 1 << 18;  // products

const PackedProducts& functions() { return simd::functions().packed; }

const PackedProducts::Pack& packs(DType dtype) {
  return dtype == DType::f32 ? functions().on_f32 : dtype == DType::bf16 ? functions().on_bf16 : functions().on_f16;
}

bool is_packable(DType dtype) { return dtype == DType::f32 || is_low_precision(dtype); }

// The last two dimensions of a tensor, and where each of its batches begins.
struct Matrices {
  DType dtype;
  int64_t rows, columns;
  int64_t row_step, column_step;
  std::vector<int64_t> begins;  // in elements

  // `y` has all dimensions before the last two; the tensor has 1 where it is used for all.
  Matrices(const TensorDesc& tensor, const TensorDesc& y) : dtype(tensor.dtype), begins{0} {
    const int rank = tensor.shape.rank();
    rows = tensor.shape[rank - 2];
    columns = tensor.shape[rank - 1];
    row_step = tensor.stride(rank - 2);
    column_step = tensor.stride(rank - 1);
    for (int axis = 0; axis < rank - 2; ++axis) {
      const int64_t step = tensor.shape[axis] == 1 ? 0 : tensor.stride(axis);
      std::vector<int64_t> more;
      for (const int64_t begin : begins) {
        for (int64_t i = 0; i < y.shape[axis]; ++i) more.push_back(begin + i * step);
      }
      begins = std::move(more);
    }
  }

  std::byte* at(std::byte* data, int64_t batch, int64_t row, int64_t column) const {
    const int64_t element = begins[static_cast<size_t>(batch)] + row * row_step + column * column_step;
    return data + element * element_bytes(dtype);
  }
};

// How many parts each dimension is cut into, one for each thread.
struct Grid {
  int64_t batches = 1, rows = 1, columns = 1;

  int64_t parts() const { return batches * rows * columns; }
};

struct Range {
  int64_t begin, end;

  int64_t count() const { return end - begin; }
};

// Part `part` of `parts`, in whole panels.
Range part_of(int64_t count, int64_t panel, int64_t part, int64_t parts) {
  const int64_t panels = (count + panel - 1) / panel;
  return {std::min(count, panels * part / parts * panel), std::min(count, panels * (part + 1) / parts * panel)};
}

// Of the largest part.
int64_t most_of(int64_t count, int64_t panel, int64_t parts) {
  const int64_t panels = (count + panel - 1) / panel;
  return std::min(count, (panels + parts - 1) / parts * panel);
}

// Of parts of about the same size, each a multiple of `granule` and at most `most`, which is one.
int64_t even_part(int64_t count, int64_t most, int64_t granule) {
  const int64_t parts = (count + most - 1) / most;
  return align_up((count + parts - 1) / parts, granule);
}

class PackedKernel {
 public:
  PackedKernel(const Product& product, const KernelCall& call, const Epilogue& epilogue)
      : a_(product.a, product.y),
        b_(product.b, product.y),
        y_(product.y, product.y),
        epilogue_(epilogue),
        has_bias_(product.bias != nullptr),
        bias_dtype_(has_bias_ ? product.bias->dtype : DType::f32),
        grid_(choose_grid(call.threads)) {
    inner_ = std::min(a_.columns, even_part(a_.columns, kInner, kInnerTurn));
    rows_ = align_up(std::min(kRows, most_of(y_.rows, panel_rows(), grid_.rows)), panel_rows());
    const int64_t all_columns = most_of(y_.columns, panel_columns(), grid_.columns);
    columns_ = even_part(all_columns, call.least_scratch ? kFewColumns : kColumns, panel_columns());
    keeps_b_ = inner_ == a_.columns;
    const int64_t whole = std::min(kWhole, kWholeOfAll / grid_.parts());
    const int64_t fitting = whole / a_.columns / panel_columns() * panel_columns();
    if (!keeps_b_ && !writes_f32() && !call.least_scratch && fitting >= std::min(columns_, kInner)) {
      keeps_b_ = true;
      columns_ = even_part(all_columns, std::min(fitting, kColumns), panel_columns());
    }
    const auto floats = [](int64_t count) { return align_up((count + simd::kLanes) * 4, kAlignment); };
    b_offset_ = floats(rows_ * inner_);
    sums_offset_ = b_offset_ + floats(columns_ * (keeps_b_ ? a_.columns : inner_));
    sum_rows_ = keeps_b_ ? rows_ : std::min(sums_in_one(), most_of(y_.rows, panel_rows(), grid_.rows));
    own_bytes_ = sums_offset_ + (writes_f32() ? 0 : floats(sum_rows_ * columns_));
    bias_bytes_ = has_bias_ && bias_dtype_ != DType::f32 ? floats(y_.columns) : 0;
  }

  Kernel finish() && {
    const int64_t bytes = bias_bytes_ + grid_.parts() * own_bytes_;
    return {bytes, [self = std::move(*this)](const Memory& m) -> Task {
              return [self, a = m.inputs[0], b = m.inputs[1], bias = m.inputs.size() > 2 ? m.inputs[2] : nullptr,
                      y = m.outputs[0], scratch = m.scratch] {
                const float* bias_f32 = self.bias_in_f32(bias, scratch);
                on_threads(static_cast<int>(self.grid_.parts()), [&](int part) {
                  self.run_part(part, {a, b, y, bias_f32, scratch + self.bias_bytes_ + part * self.own_bytes_});
                });
              };
            }};
  }

 private:
  // What a thread works on.
  struct Data {
    std::byte* a;
    std::byte* b;
    std::byte* y;
    const float* bias;
    std::byte* scratch;
  };

  static int64_t panel_rows() { return functions().panel_rows; }
  static int64_t panel_columns() { return functions().panel_columns; }
  bool writes_f32() const { return y_.dtype == DType::f32; }
  // Rows of sums, in whole blocks.
  int64_t sums_in_one() const { return std::max(kSums / columns_ / rows_, int64_t{1}) * rows_; }

  // The cut with the least work for a thread: tiles, and what it packs for them, of which an element costs about as
  // much as sixteen products.
  Grid choose_grid(int threads) const {
    Grid best;
    double least = cost_of(best);
    const auto batches = static_cast<int64_t>(y_.begins.size());
    if (batches * y_.rows * y_.columns * a_.columns < kWorthThreads) return best;
    for (int64_t of_batches = 1; of_batches <= threads; ++of_batches) {
      for (int64_t of_rows = 1; of_batches * of_rows <= threads; ++of_rows) {
        const Grid grid{of_batches, of_rows, threads / of_batches / of_rows};
        if (grid.batches > batches || cost_of(grid) >= least) continue;
        best = grid;
        least = cost_of(grid);
      }
    }
    return best;
  }

  double cost_of(const Grid& grid) const {
    const auto batches = static_cast<int64_t>(y_.begins.size());
    const auto rows = static_cast<double>(most_of(y_.rows, panel_rows(), grid.rows));
    const auto columns = static_cast<double>(most_of(y_.columns, panel_columns(), grid.columns));
    const int64_t each = (batches + grid.batches - 1) / grid.batches;
    return static_cast<double>(each) * (rows * columns + 16 * (rows + columns));
  }

  const float* bias_in_f32(const std::byte* bias, std::byte* scratch) const {
    if (!has_bias_) return nullptr;
    if (bias_dtype_ == DType::f32) return reinterpret_cast<const float*>(bias);
    auto* wide = reinterpret_cast<float*>(scratch);
    low_precision_lines(bias_dtype_).upcast(wide, reinterpret_cast<const uint16_t*>(bias), y_.columns);
    return wide;
  }

  void run_part(int64_t part, const Data& data) const {
    const Range columns = part_of(y_.columns, panel_columns(), part % grid_.columns, grid_.columns);
    const Range rows = part_of(y_.rows, panel_rows(), part / grid_.columns % grid_.rows, grid_.rows);
    const Range batches =
        part_of(static_cast<int64_t>(y_.begins.size()), 1, part / grid_.columns / grid_.rows, grid_.batches);
    const int64_t step = writes_f32() || keeps_b_ ? std::max<int64_t>(rows.count(), 1) : sum_rows_;
    for (int64_t batch = batches.begin; batch < batches.end; ++batch) {
      for (int64_t column = columns.begin; column < columns.end; column += columns_) {
        for (int64_t row = rows.begin; row < rows.end; row += step) {
          run_block(batch, {row, std::min(row + step, rows.end)}, {column, std::min(column + columns_, columns.end)},
                    data);
        }
      }
    }
  }

  // Over the whole sum. Where the result is not f32, its sums are gathered first, and rounded while they are in the
  // cache.
  void run_block(int64_t batch, Range rows, Range columns, const Data& data) const {
    if (!keeps_b_) {
      for_inner([&](Range inner) {
        pack_b(batch, columns, inner, data);
        for_rows(rows, [&](Range block) { run_rows(batch, block, columns, inner, data, block.begin - rows.begin); });
      });
      return;
    }
    for_inner([&](Range inner) { pack_b(batch, columns, inner, data); });
    for_rows(rows,
             [&](Range block) { for_inner([&](Range inner) { run_rows(batch, block, columns, inner, data, 0); }); });
  }

  template <class F>
  void for_inner(const F& f) const {
    for (int64_t k = 0; k < a_.columns; k += inner_) f(Range{k, std::min(k + inner_, a_.columns)});
  }
  template <class F>
  void for_rows(Range rows, const F& f) const {
    for (int64_t row = rows.begin; row < rows.end; row += rows_) f(Range{row, std::min(row + rows_, rows.end)});
  }

  // Panels of a block along the sum; they write some numbers into the block behind them, which comes later.
  float* b_panels(Range columns, Range inner, const Data& data) const {
    auto* b = reinterpret_cast<float*>(data.scratch + b_offset_);
    return keeps_b_ ? b + inner.begin * align_up(columns.count(), panel_columns()) : b;
  }

  void pack_b(int64_t batch, Range columns, Range inner, const Data& data) const {
    packs(b_.dtype).columns(Lines{b_.at(data.b, batch, inner.begin, columns.begin), columns.count(), inner.count(),
                                  b_.column_step, b_.row_step},
                            b_panels(columns, inner, data));
  }

  // A block of rows over a block of the sum; `row` is its place among sums.
  void run_rows(int64_t batch, Range rows, Range columns, Range inner, const Data& data, int64_t row) const {
    auto* sums = reinterpret_cast<float*>(data.scratch + sums_offset_) + row * columns.count();
    if (!writes_f32() && epilogue_.onto && inner.begin == 0) upcast_rows(batch, rows, columns, data, sums);
    multiply(batch, rows, columns, inner, data, sums);
    if (!writes_f32() && inner.end == a_.columns) downcast_rows(batch, rows, columns, data, sums);
  }

  void multiply(int64_t batch, Range rows, Range columns, Range inner, const Data& data, float* sums) const {
    auto* a = reinterpret_cast<float*>(data.scratch);
    packs(a_.dtype).rows(
        Lines{a_.at(data.a, batch, rows.begin, inner.begin), rows.count(), inner.count(), a_.row_step, a_.column_step},
        a);
    const bool is_last = inner.end == a_.columns;
    simd::PackedProduct product{.rows = rows.count(),
                                .columns = columns.count(),
                                .inner = inner.count(),
                                .a = a,
                                .b = b_panels(columns, inner, data),
                                .c = sums,
                                .c_row = columns.count(),
                                .add = epilogue_.onto || inner.begin > 0,
                                .bias = data.bias != nullptr && is_last ? data.bias + columns.begin : nullptr,
                                .relu = epilogue_.relu && is_last};
    if (writes_f32()) {
      product.c = reinterpret_cast<float*>(y_.at(data.y, batch, rows.begin, columns.begin));
      product.c_row = y_.row_step;
    }
    functions().multiply(product);
  }

  void upcast_rows(int64_t batch, Range rows, Range columns, const Data& data, float* sums) const {
    for (int64_t row = rows.begin; row < rows.end; ++row, sums += columns.count()) {
      const auto* y = reinterpret_cast<const uint16_t*>(y_.at(data.y, batch, row, columns.begin));
      low_precision_lines(y_.dtype).upcast(sums, y, columns.count());
    }
  }

  void downcast_rows(int64_t batch, Range rows, Range columns, const Data& data, const float* sums) const {
    for (int64_t row = rows.begin; row < rows.end; ++row, sums += columns.count()) {
      auto* y = reinterpret_cast<uint16_t*>(y_.at(data.y, batch, row, columns.begin));
      low_precision_lines(y_.dtype).downcast(y, sums, columns.count());
    }
  }

  Matrices a_, b_, y_;
  Epilogue epilogue_;
  bool has_bias_;
  DType bias_dtype_;
  Grid grid_;
  int64_t rows_ = 0;         // of a block of a
  int64_t columns_ = 0;      // of a block of b
  int64_t inner_ = 0;        // of a block along the sum, but for the last
  bool keeps_b_ = false;     // in panels along the whole sum, else along a block of it
  int64_t sum_rows_ = 0;     // that are gathered before they are rounded
  int64_t b_offset_ = 0;     // in the scratch of a thread, behind a
  int64_t sums_offset_ = 0;  // likewise
  int64_t own_bytes_ = 0;
  int64_t bias_bytes_ = 0;
};

}  // namespace

bool is_packed(const Product& product) {
  if (vector_isa() >= Isa::avx512 || product.a.elements() == 0 || product.b.elements() == 0) return false;
  std::vector<DType> dtypes = {product.a.dtype, product.b.dtype, product.y.dtype};
  if (product.bias != nullptr) dtypes.push_back(product.bias->dtype);
  if (!std::all_of(dtypes.begin(), dtypes.end(), is_packable)) return false;
  const int rank = product.y.shape.rank();
  const bool lies_in_rows = product.y.stride(rank - 1) == 1;
  const int64_t fewest = std::any_of(dtypes.begin(), dtypes.end(), is_low_precision) ? kFewestLow : kFewest;
  return lies_in_rows && product.y.shape[rank - 2] >= fewest && product.y.shape[rank - 1] >= fewest &&
         product.a.shape[rank - 1] >= kFewestInner;
}

Kernel packed_product(const Product& product, const KernelCall& call, const Epilogue& epilogue) {
  return PackedKernel(product, call, epilogue).finish();
}

}  // namespace plimsoll::kernels
