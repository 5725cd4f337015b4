#include "plimsoll/device/cuda/driver.h"

#include <gtest/gtest.h>

#include "plimsoll/device/cuda/bus_id.h"
#include "plimsoll/device/cuda/nvml.h"
#include "tests/device/stand_in/stand_in.h"

namespace plimsoll::cuda {
namespace {

TEST(CudaDriver, SaysThatNoDriverIsThere) {
  try {
    Driver::load("libno-such-driver.so.1");
    FAIL() << "loaded";
  } catch (const DriverMissing& error) {
    EXPECT_NE(std::string(error.what()).find("no NVIDIA driver: libno-such-driver.so.1 not found"), std::string::npos)
        << error.what();
  }
}

TEST(CudaDriver, SaysWhichFunctionALibraryLacks) {
  try {
    Driver::load("libc.so.6");
    FAIL() << "loaded";
  } catch (const DriverMissing& error) {
    EXPECT_NE(std::string(error.what()).find("has no cuInit"), std::string::npos) << error.what();
  }
}

TEST(CudaDriver, NamesVersionDeviceAndErrors) {
  const StandInSettings settings;
  stand_in_reset(&settings);
  const Driver driver = Driver::load();
  EXPECT_EQ(driver.version(), "13.0");
  EXPECT_EQ(driver.device_count(), 1);
  EXPECT_EQ(driver.device_name(0), "Stand-in");
  try {
    driver.check(kErrorOutOfMemory, "doing");
    FAIL();
  } catch (const DriverError& error) {
    EXPECT_STREQ(error.what(), "doing failed: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
    EXPECT_EQ(error.result(), kErrorOutOfMemory);
  }
}

TEST(CudaDriver, PutsTheContextBackThatWasCurrent) {
  const StandInSettings settings{.devices = 2};
  stand_in_reset(&settings);
  const Driver driver = Driver::load();
  driver.ctx_set_current(nullptr);  // whatever was before
  DeviceOrdinal device = -1;
  {
    const CurrentDevice one(driver, 1);
    EXPECT_EQ(driver.ctx_get_device(&device), kSuccess);
    EXPECT_EQ(device, 1);
    {
      const CurrentDevice zero(driver, 0);
      driver.ctx_get_device(&device);
      EXPECT_EQ(device, 0);
    }
    driver.ctx_get_device(&device);
    EXPECT_EQ(device, 1);
  }
  EXPECT_NE(driver.ctx_get_device(&device), kSuccess);
}

TEST(CudaDriver, KnowsACardByItsPlaceOnTheBus) {
  EXPECT_EQ(normal_bus_id("0000:1B:00.0"), normal_bus_id("00000000:1b:00.0"));
  EXPECT_NE(normal_bus_id("0000:1B:00.0"), normal_bus_id("0000:1C:00.0"));
  EXPECT_NE(normal_bus_id("0001:1B:00.0"), normal_bus_id("0000:1B:00.0"));
}

TEST(Nvml, HasNoCardsWhereThereIsNoLibrary) { EXPECT_TRUE(card_memory("libno-such-nvml.so.1").empty()); }

}  // namespace
}  // namespace plimsoll::cuda
