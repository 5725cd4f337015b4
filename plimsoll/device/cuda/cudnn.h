// NVIDIA's library of convolutions, by dlopen: its C functions for convolutions. Declared as cublas_lt.h does.
#pragma once

#include <cstddef>
#include <string>

#include "plimsoll/device/cuda/driver_api.h"

namespace plimsoll::cuda {

using DnnHandle = struct DnnHandleTag*;
using DnnTensor = struct DnnTensorTag*;
using DnnFilter = struct DnnFilterTag*;
using DnnConv = struct DnnConvTag*;

inline constexpr int kDnnFloat = 0;
inline constexpr int kDnnHalf = 2;
inline constexpr int kDnnBf16 = 9;
inline constexpr int kDnnNchw = 0;
inline constexpr int kDnnNhwc = 1;
inline constexpr int kDnnCrossCorrelation = 1;
inline constexpr int kDnnDefaultMath = 0;
inline constexpr int kDnnTensorOpMath = 1;
inline constexpr int kDnnFmaMath = 3;

// What the library says of one way to compute a convolution; the same for all three directions.
struct DnnAlgo {
  int algo;
  int status;
  float time;
  size_t memory;
  int deterministic;
  int math;
  int reserved[3];
};

#define PLIMSOLL_CUDNN_CALLS(X)                                                                                       \
  X(create, "cudnnCreate", (DnnHandle * handle))                                                                      \
  X(destroy, "cudnnDestroy", (DnnHandle handle))                                                                      \
  X(set_stream, "cudnnSetStream", (DnnHandle handle, StreamHandle stream))                                            \
  X(tensor_create, "cudnnCreateTensorDescriptor", (DnnTensor * tensor))                                               \
  X(tensor_destroy, "cudnnDestroyTensorDescriptor", (DnnTensor tensor))                                               \
  X(tensor_set, "cudnnSetTensorNdDescriptor",                                                                         \
    (DnnTensor tensor, int type, int rank, const int* sizes, const int* strides))                                     \
  X(filter_create, "cudnnCreateFilterDescriptor", (DnnFilter * filter))                                               \
  X(filter_destroy, "cudnnDestroyFilterDescriptor", (DnnFilter filter))                                               \
  X(filter_set, "cudnnSetFilterNdDescriptor", (DnnFilter filter, int type, int format, int rank, const int* sizes))   \
  X(conv_create, "cudnnCreateConvolutionDescriptor", (DnnConv * conv))                                                \
  X(conv_destroy, "cudnnDestroyConvolutionDescriptor", (DnnConv conv))                                                \
  X(conv_set, "cudnnSetConvolutionNdDescriptor",                                                                      \
    (DnnConv conv, int rank, const int* padding, const int* stride, const int* dilation, int mode, int compute))      \
  X(conv_set_math, "cudnnSetConvolutionMathType", (DnnConv conv, int math))                                           \
  X(conv_set_groups, "cudnnSetConvolutionGroupCount", (DnnConv conv, int groups))                                     \
  X(forward_algos, "cudnnGetConvolutionForwardAlgorithm_v7",                                                          \
    (DnnHandle handle, DnnTensor x, DnnFilter w, DnnConv conv, DnnTensor y, int requested, int* found,                \
     DnnAlgo* results))                                                                                               \
  X(forward_workspace, "cudnnGetConvolutionForwardWorkspaceSize",                                                     \
    (DnnHandle handle, DnnTensor x, DnnFilter w, DnnConv conv, DnnTensor y, int algo, size_t* bytes))                 \
  X(forward, "cudnnConvolutionForward",                                                                               \
    (DnnHandle handle, const void* alpha, DnnTensor x, const void* x_at, DnnFilter w, const void* w_at, DnnConv conv, \
     int algo, void* workspace, size_t workspace_bytes, const void* beta, DnnTensor y, void* y_at))                   \
  X(data_algos, "cudnnGetConvolutionBackwardDataAlgorithm_v7",                                                        \
    (DnnHandle handle, DnnFilter w, DnnTensor dy, DnnConv conv, DnnTensor dx, int requested, int* found,              \
     DnnAlgo* results))                                                                                               \
  X(data_workspace, "cudnnGetConvolutionBackwardDataWorkspaceSize",                                                   \
    (DnnHandle handle, DnnFilter w, DnnTensor dy, DnnConv conv, DnnTensor dx, int algo, size_t* bytes))               \
  X(backward_data, "cudnnConvolutionBackwardData",                                                                    \
    (DnnHandle handle, const void* alpha, DnnFilter w, const void* w_at, DnnTensor dy, const void* dy_at,             \
     DnnConv conv, int algo, void* workspace, size_t workspace_bytes, const void* beta, DnnTensor dx, void* dx_at))   \
  X(filter_algos, "cudnnGetConvolutionBackwardFilterAlgorithm_v7",                                                    \
    (DnnHandle handle, DnnTensor x, DnnTensor dy, DnnConv conv, DnnFilter dw, int requested, int* found,              \
     DnnAlgo* results))                                                                                               \
  X(filter_workspace, "cudnnGetConvolutionBackwardFilterWorkspaceSize",                                               \
    (DnnHandle handle, DnnTensor x, DnnTensor dy, DnnConv conv, DnnFilter dw, int algo, size_t* bytes))               \
  X(backward_filter, "cudnnConvolutionBackwardFilter",                                                                \
    (DnnHandle handle, const void* alpha, DnnTensor x, const void* x_at, DnnTensor dy, const void* dy_at,             \
     DnnConv conv, int algo, void* workspace, size_t workspace_bytes, const void* beta, DnnFilter dw, void* dw_at))

struct Cudnn {
  // Null where it is not installed. Once for the process.
  static const Cudnn* find();

// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration takes none
#define PLIMSOLL_CUDA_MEMBER(member, name, parameters) int(*member) parameters = nullptr;
  PLIMSOLL_CUDNN_CALLS(PLIMSOLL_CUDA_MEMBER)
#undef PLIMSOLL_CUDA_MEMBER
  const char* (*error_text)(int status) = nullptr;
  size_t (*version)() = nullptr;
  std::string path;

  // SystemError unless `status` is 0.
  void check(int status, const char* doing) const;
};

}  // namespace plimsoll::cuda
