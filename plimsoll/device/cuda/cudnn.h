// NVIDIA's library of convolutions, by dlopen: its interface of graphs, whose descriptors have attributes. Declared as
// cublas_lt.h does; a test compares the numbers with the library's headers where those are installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "plimsoll/device/cuda/driver_api.h"

namespace plimsoll::cuda {

using DnnHandle = struct DnnHandleTag*;
using DnnDescriptor = void*;

// The library's names of kinds of descriptors, of attributes, of their types and values.
namespace dnn {

inline constexpr int kFloat = 0;
inline constexpr int kHalf = 2;
inline constexpr int kBf16 = 9;
inline constexpr int kCrossCorrelation = 1;
inline constexpr int kHeuristicsFallback = 2;
inline constexpr int kHeuristicsA = 3;

inline constexpr int kTypeHandle = 0;
inline constexpr int kTypeDataType = 1;
inline constexpr int kTypeInt64 = 3;
inline constexpr int kTypeFloat = 4;
inline constexpr int kTypePointer = 6;
inline constexpr int kTypeConvolutionMode = 7;
inline constexpr int kTypeHeuristicsMode = 8;
inline constexpr int kTypeNote = 11;
inline constexpr int kTypeDescriptor = 15;

inline constexpr int kConvolution = 1;
inline constexpr int kEngine = 2;
inline constexpr int kEngineConfig = 3;
inline constexpr int kHeuristics = 4;
inline constexpr int kPlan = 5;
inline constexpr int kGraph = 15;
inline constexpr int kVariantPack = 16;
inline constexpr int kTensor = 17;

inline constexpr int kConvolutionCompute = 100;
inline constexpr int kConvolutionMode = 101;
inline constexpr int kConvolutionDilation = 102;
inline constexpr int kConvolutionStride = 103;
inline constexpr int kConvolutionEnd = 104;
inline constexpr int kConvolutionBegin = 105;
inline constexpr int kConvolutionRank = 106;
inline constexpr int kHeuristicsMode = 200;
inline constexpr int kHeuristicsGraph = 201;
inline constexpr int kHeuristicsResults = 202;
inline constexpr int kConfigEngine = 300;
inline constexpr int kPlanHandle = 400;
inline constexpr int kPlanConfig = 401;
inline constexpr int kPlanWorkspace = 402;
inline constexpr int kGraphHandle = 800;
inline constexpr int kGraphOperations = 801;
inline constexpr int kTensorAlignment = 900;
inline constexpr int kTensorType = 901;
inline constexpr int kTensorSizes = 902;
inline constexpr int kTensorStrides = 903;
inline constexpr int kTensorName = 906;
inline constexpr int kPackIds = 1000;
inline constexpr int kPackPointers = 1001;
inline constexpr int kPackWorkspace = 1003;
inline constexpr int kEngineNotes = 1303;

inline constexpr int kNoteTensorCore = 0;
inline constexpr int kNoteDownConverts = 1;
inline constexpr int kNoteReducedReduction = 2;
inline constexpr int kNoteFft = 3;
inline constexpr int kNoteNondeterministic = 4;
inline constexpr int kNoteWinograd = 5;

// A convolution in one direction: the kind of its descriptor, and the names of that one's attributes.
struct ConvolutionNames {
  int operation;
  int alpha, beta, window, w, x, y;
};
// Of y, of x, of w.
inline constexpr ConvolutionNames kConvolutions[] = {
    {10, 700, 701, 702, 703, 704, 705}, {12, 706, 707, 708, 709, 710, 711}, {11, 712, 713, 714, 715, 716, 717}};

}  // namespace dnn

#define PLIMSOLL_CUDNN_CALLS(X)                                                                      \
  X(create, "cudnnCreate", (DnnHandle * handle))                                                     \
  X(destroy, "cudnnDestroy", (DnnHandle handle))                                                     \
  X(set_stream, "cudnnSetStream", (DnnHandle handle, StreamHandle stream))                           \
  X(create_descriptor, "cudnnBackendCreateDescriptor", (int kind, DnnDescriptor* made))              \
  X(destroy_descriptor, "cudnnBackendDestroyDescriptor", (DnnDescriptor descriptor))                 \
  X(finalize, "cudnnBackendFinalize", (DnnDescriptor descriptor))                                    \
  X(set_attribute, "cudnnBackendSetAttribute",                                                       \
    (DnnDescriptor descriptor, int name, int type, int64_t count, const void* values))               \
  X(get_attribute, "cudnnBackendGetAttribute",                                                       \
    (DnnDescriptor descriptor, int name, int type, int64_t requested, int64_t* count, void* values)) \
  X(execute, "cudnnBackendExecute", (DnnHandle handle, DnnDescriptor plan, DnnDescriptor pack))

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
