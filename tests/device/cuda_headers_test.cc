// Our declarations against NVIDIA's own, where the toolkit is installed.
#include <gtest/gtest.h>

#include "plimsoll/device/cuda/driver_api.h"

#if __has_include(<cuda.h>)
#include <cuda.h>

#include <cstddef>
#endif

namespace plimsoll::cuda {
namespace {

TEST(CudaHeaders, AgreeWithOurDeclarations) {
#if __has_include(<cuda.h>)
  static_assert(sizeof(Location) == sizeof(CUmemLocation));
  static_assert(sizeof(AllocationProperties) == sizeof(CUmemAllocationProp));
  static_assert(offsetof(AllocationProperties, location) == offsetof(CUmemAllocationProp, location));
  static_assert(offsetof(AllocationProperties, flags) == offsetof(CUmemAllocationProp, allocFlags));
  static_assert(sizeof(AccessDescription) == sizeof(CUmemAccessDesc));
  static_assert(sizeof(DevicePointer) == sizeof(CUdeviceptr));
  static_assert(sizeof(AllocationHandle) == sizeof(CUmemGenericAllocationHandle));
  EXPECT_EQ(kErrorOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(kErrorNotReady, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(kAllocationPinned, CU_MEM_ALLOCATION_TYPE_PINNED);
  EXPECT_EQ(kLocationDevice, CU_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_EQ(kAccessReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(kGranularityMinimum, static_cast<unsigned>(CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  EXPECT_EQ(kEventDisableTiming, static_cast<unsigned>(CU_EVENT_DISABLE_TIMING));
  EXPECT_EQ(kStreamNonBlocking, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(kCaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(kCaptureNone, CU_STREAM_CAPTURE_STATUS_NONE);
#else
  GTEST_SKIP() << "no CUDA toolkit";
#endif
}

}  // namespace
}  // namespace plimsoll::cuda
