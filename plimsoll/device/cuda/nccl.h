// NVIDIA's library of collectives between cards, by dlopen. Only what is called here is declared; names, values and
// layouts are the library's own (tests/cuda/library_headers_test.cc compares them with nccl.h where that is installed).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "plimsoll/base/dtype.h"
#include "plimsoll/base/error.h"
#include "plimsoll/device/cuda/driver_api.h"

namespace plimsoll::cuda {

using NcclComm = struct NcclCommTag*;

struct NcclUniqueId {
  char bytes[128];
};

inline constexpr int kNcclSuccess = 0;
inline constexpr int kNcclInProgress = 7;
inline constexpr int kNcclSum = 0;
inline constexpr int kNcclUint8 = 1;
inline constexpr int kNcclInt64 = 4;
inline constexpr int kNcclFloat16 = 6;
inline constexpr int kNcclFloat32 = 7;
inline constexpr int kNcclFloat64 = 8;
inline constexpr int kNcclBfloat16 = 9;

// Since 2.9 collectives can be captured into graphs, since 2.10 there is bfloat16, since 2.11 both go together.
inline constexpr int kNcclLeastVersion = 21100;

#define PLIMSOLL_NCCL_CALLS(X)                                                                                  \
  X(get_version, "ncclGetVersion", (int* version))                                                              \
  X(get_unique_id, "ncclGetUniqueId", (NcclUniqueId * id))                                                      \
  X(comm_init_rank, "ncclCommInitRank", (NcclComm * comm, int ranks, NcclUniqueId id, int rank))                \
  X(comm_destroy, "ncclCommDestroy", (NcclComm comm))                                                           \
  X(comm_abort, "ncclCommAbort", (NcclComm comm))                                                               \
  X(comm_get_async_error, "ncclCommGetAsyncError", (NcclComm comm, int* error))                                 \
  X(all_reduce, "ncclAllReduce",                                                                                \
    (const void* from, void* to, size_t count, int type, int op, NcclComm comm, StreamHandle stream))           \
  X(reduce, "ncclReduce",                                                                                       \
    (const void* from, void* to, size_t count, int type, int op, int root, NcclComm comm, StreamHandle stream)) \
  X(reduce_scatter, "ncclReduceScatter",                                                                        \
    (const void* from, void* to, size_t count, int type, int op, NcclComm comm, StreamHandle stream))           \
  X(all_gather, "ncclAllGather",                                                                                \
    (const void* from, void* to, size_t count, int type, NcclComm comm, StreamHandle stream))                   \
  X(broadcast, "ncclBroadcast",                                                                                 \
    (const void* from, void* to, size_t count, int type, int root, NcclComm comm, StreamHandle stream))         \
  X(group_start, "ncclGroupStart", ())                                                                          \
  X(group_end, "ncclGroupEnd", ())

// There is no usable NCCL: the message says what is missing, and what to install.
class NcclMissing : public UnsupportedError {
 public:
  using UnsupportedError::UnsupportedError;
};

// A call of NCCL failed: "ncclAllReduce failed: unhandled cuda error (..)", in the library's own words.
class NcclError : public SystemError {
 public:
  NcclError(const std::string& message, int result) : SystemError(message), result_(result) {}
  int result() const { return result_; }

 private:
  int result_;
};

// As Driver: copies share a library that stays loaded.
struct Nccl {
  // Once for the process. NcclMissing.
  static const Nccl& get();
  // From the first of these names that is found. NcclMissing.
  static Nccl load(const std::string& library);

// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration takes none
#define PLIMSOLL_CUDA_MEMBER(member, name, parameters) int(*member) parameters = nullptr;
  PLIMSOLL_NCCL_CALLS(PLIMSOLL_CUDA_MEMBER)
#undef PLIMSOLL_CUDA_MEMBER
  const char* (*error_text)(int result) = nullptr;
  const char* (*last_error)(NcclComm comm) = nullptr;  // null before 2.13
  std::string path;

  std::string version() const;  // "2.28.3"

  // NcclError unless `result` is success.
  void check(int result, std::string_view doing) const {
    if (result != kNcclSuccess) fail(result, doing);
  }
  [[noreturn]] void fail(int result, std::string_view doing) const;
};

// NCCL's number of a dtype. ArgumentError for one that it does not sum.
int nccl_type(DType dtype);

}  // namespace plimsoll::cuda
