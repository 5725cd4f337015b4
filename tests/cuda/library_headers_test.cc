// Our declarations of NVIDIA's libraries against their own headers, where those are installed.
#include <gtest/gtest.h>

#include "plimsoll/device/cuda/compute_api.h"
#include "plimsoll/device/cuda/cublas_lt.h"
#include "plimsoll/device/cuda/cudnn.h"
#include "plimsoll/device/cuda/nccl.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#endif
#if __has_include(<cudnn.h>)
#include <cudnn.h>
#endif
#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>
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
  EXPECT_EQ(dnn::kFloat, CUDNN_DATA_FLOAT);
  EXPECT_EQ(dnn::kHalf, CUDNN_DATA_HALF);
  EXPECT_EQ(dnn::kBf16, CUDNN_DATA_BFLOAT16);
  EXPECT_EQ(dnn::kCrossCorrelation, CUDNN_CROSS_CORRELATION);
  EXPECT_EQ(dnn::kHeuristicsFallback, CUDNN_HEUR_MODE_FALLBACK);
  EXPECT_EQ(dnn::kHeuristicsA, CUDNN_HEUR_MODE_A);
  EXPECT_EQ(dnn::kTypeHandle, CUDNN_TYPE_HANDLE);
  EXPECT_EQ(dnn::kTypeDataType, CUDNN_TYPE_DATA_TYPE);
  EXPECT_EQ(dnn::kTypeInt64, CUDNN_TYPE_INT64);
  EXPECT_EQ(dnn::kTypeFloat, CUDNN_TYPE_FLOAT);
  EXPECT_EQ(dnn::kTypePointer, CUDNN_TYPE_VOID_PTR);
  EXPECT_EQ(dnn::kTypeConvolutionMode, CUDNN_TYPE_CONVOLUTION_MODE);
  EXPECT_EQ(dnn::kTypeHeuristicsMode, CUDNN_TYPE_HEUR_MODE);
  EXPECT_EQ(dnn::kTypeNote, CUDNN_TYPE_NUMERICAL_NOTE);
  EXPECT_EQ(dnn::kTypeDescriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  EXPECT_EQ(dnn::kConvolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  EXPECT_EQ(dnn::kEngine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  EXPECT_EQ(dnn::kEngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  EXPECT_EQ(dnn::kHeuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  EXPECT_EQ(dnn::kPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  EXPECT_EQ(dnn::kGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  EXPECT_EQ(dnn::kVariantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  EXPECT_EQ(dnn::kTensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  EXPECT_EQ(dnn::kConvolutionCompute, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
  EXPECT_EQ(dnn::kConvolutionMode, CUDNN_ATTR_CONVOLUTION_CONV_MODE);
  EXPECT_EQ(dnn::kConvolutionDilation, CUDNN_ATTR_CONVOLUTION_DILATIONS);
  EXPECT_EQ(dnn::kConvolutionStride, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  EXPECT_EQ(dnn::kConvolutionEnd, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  EXPECT_EQ(dnn::kConvolutionBegin, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  EXPECT_EQ(dnn::kConvolutionRank, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
  EXPECT_EQ(dnn::kHeuristicsMode, CUDNN_ATTR_ENGINEHEUR_MODE);
  EXPECT_EQ(dnn::kHeuristicsGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  EXPECT_EQ(dnn::kHeuristicsResults, CUDNN_ATTR_ENGINEHEUR_RESULTS);
  EXPECT_EQ(dnn::kConfigEngine, CUDNN_ATTR_ENGINECFG_ENGINE);
  EXPECT_EQ(dnn::kPlanConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  EXPECT_EQ(dnn::kPlanWorkspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  EXPECT_EQ(dnn::kGraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  EXPECT_EQ(dnn::kTensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  EXPECT_EQ(dnn::kTensorType, CUDNN_ATTR_TENSOR_DATA_TYPE);
  EXPECT_EQ(dnn::kTensorSizes, CUDNN_ATTR_TENSOR_DIMENSIONS);
  EXPECT_EQ(dnn::kTensorStrides, CUDNN_ATTR_TENSOR_STRIDES);
  EXPECT_EQ(dnn::kTensorName, CUDNN_ATTR_TENSOR_UNIQUE_ID);
  EXPECT_EQ(dnn::kPackIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  EXPECT_EQ(dnn::kPackPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  EXPECT_EQ(dnn::kPackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  EXPECT_EQ(dnn::kEngineNotes, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
  EXPECT_EQ(dnn::kNoteTensorCore, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  EXPECT_EQ(dnn::kNoteDownConverts, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
  EXPECT_EQ(dnn::kNoteReducedReduction, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
  EXPECT_EQ(dnn::kNoteFft, CUDNN_NUMERICAL_NOTE_FFT);
  EXPECT_EQ(dnn::kNoteNondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  EXPECT_EQ(dnn::kNoteWinograd, CUDNN_NUMERICAL_NOTE_WINOGRAD);
  EXPECT_EQ(dnn::kConvolutions[0].operation, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  EXPECT_EQ(dnn::kConvolutions[1].operation, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
  EXPECT_EQ(dnn::kConvolutions[2].operation, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
  EXPECT_EQ(dnn::kConvolutions[0].alpha, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
  EXPECT_EQ(dnn::kConvolutions[0].w, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
  EXPECT_EQ(dnn::kConvolutions[0].x, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
  EXPECT_EQ(dnn::kConvolutions[0].y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
  EXPECT_EQ(dnn::kConvolutions[1].w, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W);
  EXPECT_EQ(dnn::kConvolutions[1].x, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX);
  EXPECT_EQ(dnn::kConvolutions[1].y, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
  EXPECT_EQ(dnn::kConvolutions[2].window, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
  EXPECT_EQ(dnn::kConvolutions[2].w, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);
  EXPECT_EQ(dnn::kConvolutions[2].x, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X);
  EXPECT_EQ(dnn::kConvolutions[2].y, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
#else
  GTEST_SKIP() << "cudnn.h is not installed";
#endif
}

// Whether two functions take arguments of the same sizes: our handles and numbers for theirs, and their enumerations.
template <class Theirs, class Ours>
struct TakesAlike : std::false_type {};
template <class R, class... Theirs, class... Ours>
struct TakesAlike<R (*)(Theirs...), int (*)(Ours...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(Theirs) != sizeof...(Ours)) {
      return false;
    } else {
      return ((sizeof(Theirs) == sizeof(Ours)) && ...);
    }
  }();
};

TEST(LibraryHeaders, OfNcclAgree) {
#ifdef NCCL_UNIQUE_ID_BYTES
  static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId) && sizeof(NcclUniqueId) == NCCL_UNIQUE_ID_BYTES);
  EXPECT_EQ(kNcclSuccess, ncclSuccess);
  EXPECT_EQ(kNcclInProgress, ncclInProgress);
  EXPECT_EQ(kNcclSum, ncclSum);
  EXPECT_EQ(kNcclUint8, ncclUint8);
  EXPECT_EQ(kNcclInt64, ncclInt64);
  EXPECT_EQ(kNcclFloat16, ncclFloat16);
  EXPECT_EQ(kNcclFloat32, ncclFloat32);
  EXPECT_EQ(kNcclFloat64, ncclFloat64);
  EXPECT_EQ(kNcclBfloat16, ncclBfloat16);
  EXPECT_EQ(kNcclLeastVersion, NCCL_VERSION(2, 11, 0));
  static_assert(TakesAlike<decltype(&ncclGetVersion), decltype(Nccl::get_version)>::value);
  static_assert(TakesAlike<decltype(&ncclGetUniqueId), decltype(Nccl::get_unique_id)>::value);
  static_assert(TakesAlike<decltype(&ncclCommInitRank), decltype(Nccl::comm_init_rank)>::value);
  static_assert(TakesAlike<decltype(&ncclCommDestroy), decltype(Nccl::comm_destroy)>::value);
  static_assert(TakesAlike<decltype(&ncclCommAbort), decltype(Nccl::comm_abort)>::value);
  static_assert(TakesAlike<decltype(&ncclCommGetAsyncError), decltype(Nccl::comm_get_async_error)>::value);
  static_assert(TakesAlike<decltype(&ncclAllReduce), decltype(Nccl::all_reduce)>::value);
  static_assert(TakesAlike<decltype(&ncclReduce), decltype(Nccl::reduce)>::value);
  static_assert(TakesAlike<decltype(&ncclReduceScatter), decltype(Nccl::reduce_scatter)>::value);
  static_assert(TakesAlike<decltype(&ncclAllGather), decltype(Nccl::all_gather)>::value);
  static_assert(TakesAlike<decltype(&ncclBroadcast), decltype(Nccl::broadcast)>::value);
  static_assert(TakesAlike<decltype(&ncclGroupStart), decltype(Nccl::group_start)>::value);
  static_assert(TakesAlike<decltype(&ncclGroupEnd), decltype(Nccl::group_end)>::value);
#else
  GTEST_SKIP() << "nccl.h is not installed";
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
