// Our declarations of NVIDIA's libraries against their own headers, where those are installed.
#include <gtest/gtest.h>

#include "plimsoll/device/cuda/compute_api.h"
#include "plimsoll/device/cuda/cublas_lt.h"
#include "plimsoll/device/cuda/cudnn.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#endif
#if __has_include(<cudnn.h>)
#include <cudnn.h>
#endif
#if __has_include(<cuda.h>)
#include <cuda.h>
#endif

namespace plimsoll::cuda {
namespace {

TEST(LibraryHeaders, OfCublasLtAgree) {
#if __has_include(<cublasLt.h>)
  static_assert(sizeof(LtAlgo) == sizeof(cublasLtMatmulAlgo_t));
  static_assert(sizeof(LtHeuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
  static_assert(offsetof(LtHeuristic, workspace_bytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
  EXPECT_EQ(kLtReal32, CUDA_R_32F);
  EXPECT_EQ(kLtReal16, CUDA_R_16F);
  EXPECT_EQ(kLtBf16, CUDA_R_16BF);
  EXPECT_EQ(kLtCompute32, CUBLAS_COMPUTE_32F);
  EXPECT_EQ(kLtComputeTf32, CUBLAS_COMPUTE_32F_FAST_TF32);
  EXPECT_EQ(kLtDescTransA, CUBLASLT_MATMUL_DESC_TRANSA);
  EXPECT_EQ(kLtDescTransB, CUBLASLT_MATMUL_DESC_TRANSB);
  EXPECT_EQ(kLtDescEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
  EXPECT_EQ(kLtDescBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  EXPECT_EQ(kLtDescBiasType, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
  EXPECT_EQ(kLtLayoutBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  EXPECT_EQ(kLtLayoutBatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  EXPECT_EQ(kLtPreferenceWorkspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  EXPECT_EQ(kLtPreferenceReduction, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
  EXPECT_EQ(kLtPreferenceAlignment[0], CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  EXPECT_EQ(kLtPreferenceAlignment[3], CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  EXPECT_EQ(kLtEpilogueBias, CUBLASLT_EPILOGUE_BIAS);
  EXPECT_EQ(kLtReductionComputeType, static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
#else
  GTEST_SKIP() << "cublasLt.h is not installed";
#endif
}

TEST(LibraryHeaders, OfCudnnAgree) {
#if __has_include(<cudnn.h>)
  static_assert(sizeof(DnnAlgo) == sizeof(cudnnConvolutionFwdAlgoPerf_t));
  static_assert(sizeof(DnnAlgo) == sizeof(cudnnConvolutionBwdDataAlgoPerf_t));
  static_assert(sizeof(DnnAlgo) == sizeof(cudnnConvolutionBwdFilterAlgoPerf_t));
  static_assert(offsetof(DnnAlgo, math) == offsetof(cudnnConvolutionFwdAlgoPerf_t, mathType));
  static_assert(offsetof(DnnAlgo, deterministic) == offsetof(cudnnConvolutionFwdAlgoPerf_t, determinism));
  EXPECT_EQ(kDnnFloat, CUDNN_DATA_FLOAT);
  EXPECT_EQ(kDnnHalf, CUDNN_DATA_HALF);
  EXPECT_EQ(kDnnBf16, CUDNN_DATA_BFLOAT16);
  EXPECT_EQ(kDnnNchw, CUDNN_TENSOR_NCHW);
  EXPECT_EQ(kDnnNhwc, CUDNN_TENSOR_NHWC);
  EXPECT_EQ(kDnnCrossCorrelation, CUDNN_CROSS_CORRELATION);
  EXPECT_EQ(kDnnDefaultMath, CUDNN_DEFAULT_MATH);
  EXPECT_EQ(kDnnTensorOpMath, CUDNN_TENSOR_OP_MATH);
  EXPECT_EQ(kDnnFmaMath, CUDNN_FMA_MATH);
  EXPECT_EQ(1, CUDNN_DETERMINISTIC);
#else
  GTEST_SKIP() << "cudnn.h is not installed";
#endif
}

TEST(LibraryHeaders, OfTheDriverAgree) {
#if __has_include(<cuda.h>)
  EXPECT_EQ(kAttributeMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  EXPECT_EQ(kAttributeMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  EXPECT_EQ(kAttributeMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  EXPECT_EQ(kFunctionMaxDynamicShared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  EXPECT_EQ(kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
#else
  GTEST_SKIP() << "cuda.h is not installed";
#endif
}

}  // namespace
}  // namespace plimsoll::cuda
