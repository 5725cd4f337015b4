#include "plimsoll/kernels/cuda/support/product.h"

#include <fmt/format.h>

#include <memory>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/device/cuda/cards.h"
#include "plimsoll/device/cuda/runtime.h"
#include "plimsoll/device/device.h"

namespace plimsoll::kernels::cuda {
namespace {

using plimsoll::cuda::CublasLt;
using plimsoll::cuda::Runtime;

// What the library recommends for Hopper; small products need none.
constexpr int64_t kWorkspace = int64_t{32} << 20;

// The library refuses others.
constexpr int64_t kWorkspaceAlignment = 256;

std::byte* aligned_up(std::byte* at) {
  return at + (-reinterpret_cast<uintptr_t>(at) & static_cast<uintptr_t>(kWorkspaceAlignment - 1));
}

int64_t workspace_of(const Product& p) {
  const double work = static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k * p.batches);
  return work < 1e7 ? 0 : work < 1e9 ? kWorkspace / 8 : kWorkspace;
}

bool has_library() {
  if (plimsoll::cuda::card_on_paper() != nullptr) return true;
  return CompileOnly::architecture() == nullptr && CublasLt::find() != nullptr;
}

bool is_supported(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16; }

// One of the two strides is 1, and the other at least as long as a line.
bool is_plain(const Matrix& matrix, int64_t rows, int64_t columns) {
  const bool by_rows = (matrix.column == 1 || columns == 1) && (matrix.row >= columns || rows == 1);
  const bool by_columns = (matrix.row == 1 || rows == 1) && (matrix.column >= rows || columns == 1);
  return by_rows || by_columns;
}

int type_of(DType dtype) {
  return dtype == DType::f32   ? plimsoll::cuda::kLtReal32
         : dtype == DType::f16 ? plimsoll::cuda::kLtReal16
                               : plimsoll::cuda::kLtBf16;
}

// The largest power of two, up to 256, that an address is a multiple of.
uint32_t alignment_of(const std::byte* at) {
  const auto bits = reinterpret_cast<uintptr_t>(at) | 256;
  return static_cast<uint32_t>(bits & (~bits + 1));
}

// The descriptions of one product and the way to compute it. The library is column-major: it is given b' a' = c'.
class Bound {
 public:
  Bound(const Product& p, const Memory& memory, int64_t workspace_bytes, std::byte* workspace)
      : lt_(*Runtime::current().blas()),
        a_(address(p.a.at, memory)),
        b_(address(p.b.at, memory)),
        c_(address(p.c.at, memory)),
        workspace_(workspace),
        workspace_bytes_(static_cast<size_t>(workspace_bytes)),
        beta_(p.adds ? 1 : 0) {
    const bool tf32 = p.dtype == DType::f32 && device::allows_tf32();
    const int compute = tf32 ? plimsoll::cuda::kLtComputeTf32 : plimsoll::cuda::kLtCompute32;
    CublasLt::check(lt_.desc_create(&desc_, compute, plimsoll::cuda::kLtReal32), "cublasLtMatmulDescCreate");
    layout_b_ = operand(p, p.b, p.k, p.n, plimsoll::cuda::kLtDescTransA);
    layout_a_ = operand(p, p.a, p.m, p.k, plimsoll::cuda::kLtDescTransB);
    layout_c_ = layout(p, p.n, p.m, std::max(p.c.row, p.n), p.c.batch);
    if (std::byte* bias = address(p.bias, memory)) set_bias(p, bias);
    choose(p);
  }
  ~Bound() {
    for (void* one : {layout_a_, layout_b_, layout_c_}) lt_.layout_destroy(one);
    lt_.desc_destroy(desc_);
  }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

  void enqueue(device::Stream& stream) const {
    const float one = 1;
    CublasLt::check(lt_.matmul(Runtime::current().blas_handle(), desc_, &one, b_, layout_b_, a_, layout_a_, &beta_, c_,
                               layout_c_, c_, layout_c_, &algo_, workspace_, workspace_bytes_,
                               static_cast<plimsoll::cuda::StreamHandle>(stream.native())),
                    "cublasLtMatmul");
  }

 private:
  void* layout(const Product& p, int64_t rows, int64_t columns, int64_t leading, int64_t batch) {
    void* made = nullptr;
    CublasLt::check(lt_.layout_create(&made, type_of(p.dtype), static_cast<uint64_t>(rows),
                                      static_cast<uint64_t>(columns), leading),
                    "cublasLtMatrixLayoutCreate");
    if (p.batches > 1) {
      const auto count = static_cast<int32_t>(p.batches);
      CublasLt::check(lt_.layout_set(made, plimsoll::cuda::kLtLayoutBatchCount, &count, sizeof count), "batch count");
      CublasLt::check(lt_.layout_set(made, plimsoll::cuda::kLtLayoutBatchStride, &batch, sizeof batch), "batch stride");
    }
    return made;
  }

  // A matrix [rows, columns] as the library sees it: transposed, unless it lies by columns.
  void* operand(const Product& p, const Matrix& matrix, int64_t rows, int64_t columns, int transpose_attribute) {
    const bool by_rows = (matrix.column == 1 || columns == 1) && (matrix.row >= columns || rows == 1);
    if (by_rows) return layout(p, columns, rows, std::max(rows == 1 ? columns : matrix.row, columns), matrix.batch);
    const int32_t transposed = 1;
    CublasLt::check(lt_.desc_set(desc_, transpose_attribute, &transposed, sizeof transposed), "transpose");
    return layout(p, rows, columns, std::max(columns == 1 ? rows : matrix.column, rows), matrix.batch);
  }

  void set_bias(const Product& p, std::byte* bias) {
    const uint32_t epilogue = plimsoll::cuda::kLtEpilogueBias;
    CublasLt::check(lt_.desc_set(desc_, plimsoll::cuda::kLtDescEpilogue, &epilogue, sizeof epilogue), "epilogue");
    CublasLt::check(lt_.desc_set(desc_, plimsoll::cuda::kLtDescBiasPointer, &bias, sizeof bias), "bias");
    const int32_t type = type_of(p.dtype);
    CublasLt::check(lt_.desc_set(desc_, plimsoll::cuda::kLtDescBiasType, &type, sizeof type), "bias type");
  }

  // The first of the library's proposals, which are the same for the same shapes on one card.
  void choose(const Product& p) {
    void* preference = nullptr;
    CublasLt::check(lt_.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
    const auto bytes = static_cast<uint64_t>(workspace_bytes_);
    lt_.preference_set(preference, plimsoll::cuda::kLtPreferenceWorkspace, &bytes, sizeof bytes);
    const uint32_t reductions = plimsoll::cuda::kLtReductionComputeType;
    lt_.preference_set(preference, plimsoll::cuda::kLtPreferenceReduction, &reductions, sizeof reductions);
    const std::byte* const places[4] = {b_, a_, c_, c_};
    for (int i = 0; i < 4; ++i) {
      const uint32_t alignment = alignment_of(places[i]);
      lt_.preference_set(preference, plimsoll::cuda::kLtPreferenceAlignment[i], &alignment, sizeof alignment);
    }
    plimsoll::cuda::LtHeuristic found{};
    int count = 0;
    const int status = lt_.heuristic(Runtime::current().blas_handle(), desc_, layout_b_, layout_a_, layout_c_,
                                     layout_c_, preference, 1, &found, &count);
    lt_.preference_destroy(preference);
    if (status != 0 || count == 0) {
      throw SystemError(
          fmt::format("cuBLAS has no way to multiply {}x{}x{} in {}: status {}", p.m, p.n, p.k, name(p.dtype), status));
    }
    algo_ = found.algo;
  }

  const CublasLt& lt_;
  std::byte* a_;
  std::byte* b_;
  std::byte* c_;
  std::byte* workspace_;
  size_t workspace_bytes_;
  float beta_;
  void* desc_ = nullptr;
  void* layout_a_ = nullptr;
  void* layout_b_ = nullptr;
  void* layout_c_ = nullptr;
  plimsoll::cuda::LtAlgo algo_{};
};

Launch tile_launch(const SummedProduct& all, int64_t batches, int64_t summed) {
  const Product& p = all.product;
  Launch launch{"matmul"};
  launch.defines.set("TA", p.dtype).set("TB", p.dtype).set("TC", p.dtype);
  launch.grid = {ceil_div(p.n, int64_t{64}), ceil_div(p.m, int64_t{64}), batches};
  launch.arguments =
      Arguments(p.m, p.n, p.k, p.a.at, p.a.row, p.a.column, p.b.at, p.b.row, p.b.column, p.c.at, p.c.row, p.bias,
                int32_t{p.adds}, all.batch_a, all.batch_b, all.batch_c, summed, all.summed_a, all.summed_b);
  return launch;
}

Walk batch_walk(int64_t batches, int64_t stride) {
  Walk walk;
  walk.add(batches, stride);
  return walk;
}

// ---- rows that are not whole vectors ----

// Large products of 2-byte elements are several times slower where a size that rows have is not a whole number of
// 16-byte vectors (a vocabulary of 50257): such operands and results pass through scratch, where rows are longer, some
// rows of the result at a time. What is added is zero, and of the result left behind.
constexpr int64_t kStagedBytes = int64_t{768} << 20;
constexpr double kLeastStaged = 2e10;  // products

bool is_whole_vectors(int64_t elements) { return elements % 8 == 0; }
int64_t in_whole_vectors(int64_t elements) { return align_up(elements, int64_t{8}); }
bool is_by_rows(const Matrix& matrix) { return matrix.column == 1; }
int64_t pitch_of(const Matrix& matrix) { return is_by_rows(matrix) ? matrix.row : matrix.column; }

// What of a product passes through scratch.
struct Staging {
  bool a, c;
  int64_t k, n;  // as they are multiplied
  bool b;        // has lines of zeros added

  explicit Staging(const Product& p)
      : a(!is_whole_vectors(pitch_of(p.a))),
        c(!is_whole_vectors(p.c.row)),
        k(a && is_by_rows(p.a) ? in_whole_vectors(p.k) : p.k),
        n(c ? in_whole_vectors(p.n) : p.n),
        b(k != p.k || n != p.n) {}
  // Of b: its lines are added to where they are what is longer, and nothing else can be.
  bool is_possible(const Product& p) const { return is_by_rows(p.b) ? n == p.n : k == p.k; }
};

bool is_staged(const Product& p) {
  if (element_bytes(p.dtype) != 2 || p.batches != 1 || !is_whole_vectors(pitch_of(p.b))) return false;
  if (p.adds && !is_whole_vectors(p.c.row)) return false;
  if (static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) < kLeastStaged) return false;
  const Staging staging(p);
  return (staging.a || staging.c) && staging.is_possible(p);
}

struct RowsOf {
  At at;
  int64_t columns;
  int64_t pitch;
};

void copy_rows(Steps& steps, int64_t rows, const RowsOf& from, const RowsOf& to) {
  constexpr int64_t kMostRows = 65535;
  for (int64_t first = 0; first < rows; first += kMostRows) {
    Launch launch{"rows"};
    launch.grid = {blocks_for(to.columns + 7, 256, 8), std::min(kMostRows, rows - first)};
    launch.arguments = Arguments(from.columns, to.columns, from.at + first * from.pitch * 2, from.pitch,
                                 to.at + first * to.pitch * 2, to.pitch);
    steps.launch(launch);
  }
}

// b with lines of zeros after its own.
Matrix lengthened(Steps& steps, const Product& p, const Staging& staging) {
  const bool by_rows = is_by_rows(p.b);
  const int64_t line = by_rows ? p.n : p.k;
  const int64_t lines = by_rows ? p.k : p.n;
  const int64_t wanted = by_rows ? staging.k : staging.n;
  const int64_t pitch = pitch_of(p.b);
  const At copy = steps.scratch(wanted * line * 2);
  copy_rows(steps, lines, {p.b.at, line, pitch}, {copy, line, line});
  steps.add(fill_bytes(copy + lines * line * 2, 0, (wanted - lines) * line * 2));
  return by_rows ? Matrix{copy, line, 1, 0} : Matrix{copy, 1, line, 0};
}

void multiply_by_library(Steps& steps, const Product& p, At workspace, int64_t bytes) {
  steps.add([=](const Memory& memory) -> Task {
    auto bound = std::make_shared<Bound>(p, memory, bytes, aligned_up(address(workspace, memory)));
    return [bound](device::Stream& stream) { bound->enqueue(stream); };
  });
}

void multiply_staged(Steps& steps, const Product& p, At workspace, int64_t bytes) {
  const Staging staging(p);
  const int64_t of_row = 2 * ((staging.a ? in_whole_vectors(p.k) : 0) + (staging.c ? staging.n : 0));
  const int64_t most = std::clamp<int64_t>(kStagedBytes / of_row / 128 * 128, 128, align_up(p.m, int64_t{128}));
  const At staged_a = staging.a ? steps.scratch(most * in_whole_vectors(p.k) * 2) : none();
  const At staged_c = staging.c ? steps.scratch(most * staging.n * 2) : none();
  const Matrix b = staging.b ? lengthened(steps, p, staging) : p.b;
  At bias = p.bias;
  if (staging.n != p.n && bias.where != At::Where::none) {
    bias = steps.scratch(staging.n * 2);
    steps.add(copy_bytes(bias, p.bias, p.n * 2));
  }
  for (int64_t first = 0; first < p.m; first += most) {
    Product part = p;
    part.m = std::min(most, p.m - first);
    part.k = staging.k;
    part.n = staging.n;
    part.b = b;
    part.bias = bias;
    part.a.at = p.a.at + first * p.a.row * 2;
    part.c.at = p.c.at + first * p.c.row * 2;
    if (staging.a && is_by_rows(p.a)) {
      copy_rows(steps, part.m, {part.a.at, p.k, p.a.row}, {staged_a, staging.k, staging.k});
      part.a = {staged_a, staging.k, 1, 0};
    } else if (staging.a) {
      copy_rows(steps, p.k, {part.a.at, part.m, p.a.column}, {staged_a, part.m, most});
      part.a = {staged_a, 1, most, 0};
    }
    if (staging.c) part.c = {staged_c, staging.n, 1, 0};
    multiply_by_library(steps, part, workspace, bytes);
    if (staging.c) copy_rows(steps, part.m, {staged_c, p.n, staging.n}, {p.c.at + first * p.c.row * 2, p.n, p.c.row});
  }
}

}  // namespace

void multiply(Steps& steps, const Product& p) {
  if (p.k == 0 && !p.adds) {
    steps.add(fill_bytes(p.c.at, 0, p.batches * p.m * p.n * element_bytes(p.dtype)));
    return;
  }
  const bool by_library = has_library() && is_supported(p.dtype) && is_plain(p.a, p.m, p.k) && is_plain(p.b, p.k, p.n);
  if (!by_library) {
    SummedProduct all{
        p, batch_walk(p.batches, p.a.batch), batch_walk(p.batches, p.b.batch), batch_walk(p.batches, p.c.batch), {},
        {}};
    steps.launch(tile_launch(all, p.batches, 1));
    return;
  }
  const int64_t bytes = workspace_of(p);
  const At workspace = bytes > 0 ? steps.scratch(bytes + kWorkspaceAlignment) : none();
  if (is_staged(p) && !steps.call().least_scratch) {
    multiply_staged(steps, p, workspace, bytes);
  } else {
    multiply_by_library(steps, p, workspace, bytes);
  }
}

void multiply_summed(Steps& steps, const SummedProduct& product) {
  steps.launch(tile_launch(product, product.batch_c.elements(), product.summed_a.elements()));
}

}  // namespace plimsoll::kernels::cuda
