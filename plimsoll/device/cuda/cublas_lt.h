// NVIDIA's library of matrix products, by dlopen. Only what is called here is declared; names and values are the
// library's own (tests/cuda/library_headers_test.cc compares them with its header where that is installed).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "plimsoll/device/cuda/driver_api.h"

namespace plimsoll::cuda {

using LtHandle = void*;
using LtMatmulDesc = void*;
using LtLayout = void*;
using LtPreference = void*;

inline constexpr int kLtReal32 = 0;
inline constexpr int kLtReal16 = 2;
inline constexpr int kLtBf16 = 14;
inline constexpr int kLtCompute32 = 68;
inline constexpr int kLtComputeTf32 = 77;

inline constexpr int kLtDescTransA = 3;
inline constexpr int kLtDescTransB = 4;
inline constexpr int kLtDescEpilogue = 7;
inline constexpr int kLtDescBiasPointer = 8;
inline constexpr int kLtDescBiasType = 26;
inline constexpr int kLtLayoutBatchCount = 5;
inline constexpr int kLtLayoutBatchStride = 6;
inline constexpr int kLtPreferenceWorkspace = 1;
inline constexpr int kLtPreferenceReduction = 3;
inline constexpr int kLtPreferenceAlignment[4] = {5, 6, 7, 8};  // of a, b, c, d
inline constexpr int kLtEpilogueBias = 4;
inline constexpr uint32_t kLtReductionComputeType = 2;

struct LtAlgo {
  uint64_t data[8];
};

struct LtHeuristic {
  LtAlgo algo;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

#define PLIMSOLL_CUBLAS_LT_CALLS(X)                                                                                    \
  X(create, "cublasLtCreate", (LtHandle * handle))                                                                     \
  X(desc_create, "cublasLtMatmulDescCreate", (LtMatmulDesc * desc, int compute, int scale))                            \
  X(desc_destroy, "cublasLtMatmulDescDestroy", (LtMatmulDesc desc))                                                    \
  X(desc_set, "cublasLtMatmulDescSetAttribute", (LtMatmulDesc desc, int attribute, const void* value, size_t bytes))   \
  X(layout_create, "cublasLtMatrixLayoutCreate",                                                                       \
    (LtLayout * layout, int type, uint64_t rows, uint64_t columns, int64_t leading))                                   \
  X(layout_destroy, "cublasLtMatrixLayoutDestroy", (LtLayout layout))                                                  \
  X(layout_set, "cublasLtMatrixLayoutSetAttribute", (LtLayout layout, int attribute, const void* value, size_t bytes)) \
  X(preference_create, "cublasLtMatmulPreferenceCreate", (LtPreference * preference))                                  \
  X(preference_destroy, "cublasLtMatmulPreferenceDestroy", (LtPreference preference))                                  \
  X(preference_set, "cublasLtMatmulPreferenceSetAttribute",                                                            \
    (LtPreference preference, int attribute, const void* value, size_t bytes))                                         \
  X(heuristic, "cublasLtMatmulAlgoGetHeuristic",                                                                       \
    (LtHandle handle, LtMatmulDesc desc, LtLayout a, LtLayout b, LtLayout c, LtLayout d, LtPreference preference,      \
     int requested, LtHeuristic* results, int* found))                                                                 \
  X(matmul, "cublasLtMatmul",                                                                                          \
    (LtHandle handle, LtMatmulDesc desc, const void* alpha, const void* a, LtLayout layout_a, const void* b,           \
     LtLayout layout_b, const void* beta, const void* c, LtLayout layout_c, void* d, LtLayout layout_d,                \
     const LtAlgo* algo, void* workspace, size_t workspace_bytes, StreamHandle stream))

// As Driver: copies share a library that stays loaded.
struct CublasLt {
  // Null where it is not installed. Once for the process.
  static const CublasLt* find();

// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration takes none
#define PLIMSOLL_CUDA_MEMBER(member, name, parameters) int(*member) parameters = nullptr;
  PLIMSOLL_CUBLAS_LT_CALLS(PLIMSOLL_CUDA_MEMBER)
#undef PLIMSOLL_CUDA_MEMBER
  size_t (*version)() = nullptr;
  std::string path;

  // SystemError unless `status` is 0.
  static void check(int status, const char* doing);
};

}  // namespace plimsoll::cuda
