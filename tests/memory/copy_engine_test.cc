#include "plimsoll/memory/copy_engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "plimsoll/base/error.h"

namespace plimsoll {
namespace {

// Memory that takes part as a device would; holds copies back until it is opened.
class Device : public FarEnd {
 public:
  explicit Device(size_t bytes) : memory_(bytes) {}

  int move(const Copy& copy) override {
    while (!open) std::this_thread::yield();
    std::byte* here = memory_.data() + copy.offset;
    const auto bytes = static_cast<size_t>(copy.bytes);
    copy.goes_out ? std::memcpy(here, copy.memory, bytes) : std::memcpy(copy.memory, here, bytes);
    return ++moves == fails_at ? ENOSPC : 0;
  }

  std::atomic<bool> open = true;
  std::atomic<int> moves = 0;
  int fails_at = -1;

 private:
  std::vector<std::byte> memory_;
};

Copy out(std::vector<std::byte>& data, int64_t offset) {
  return {data.data(), static_cast<int64_t>(data.size()), offset, true};
}
Copy in(std::vector<std::byte>& data, int64_t offset) {
  return {data.data(), static_cast<int64_t>(data.size()), offset, false};
}

TEST(CopyEngine, BringsBackWhatItTookInTheOrderItWasAsked) {
  Device device(1 << 16);
  CopyEngine engine(device, "copying");
  std::vector<std::vector<std::byte>> there;
  std::vector<std::vector<std::byte>> back(64, std::vector<std::byte>(1 << 10));
  for (int i = 0; i < 64; ++i) there.emplace_back(1 << 10, static_cast<std::byte>(i + 1));
  for (size_t i = 0; i < there.size(); ++i) {
    engine.submit(out(there[i], 0));  // all to the same place: the next takes it only after this one is back
    engine.submit(in(back[i], 0));
  }
  engine.wait(2 * 64 - 1);
  EXPECT_EQ(back, there);
}

TEST(CopyEngine, GoesOnWhileTheCallerDoes) {
  Device device(64);
  device.open = false;
  CopyEngine engine(device, "copying");
  std::vector<std::byte> data(64);
  const auto ticket = engine.submit(out(data, 0));
  EXPECT_EQ(device.moves, 0);
  device.open = true;
  engine.wait(ticket);
  EXPECT_EQ(device.moves, 1);
}

TEST(CopyEngine, TakesMoreCopiesThanItsQueueHolds) {
  Device device(64);
  CopyEngine engine(device, "copying", 2);
  std::vector<std::byte> data(64);
  CopyEngine::Ticket last = 0;
  for (int i = 0; i < 100; ++i) last = engine.submit(out(data, 0));
  engine.wait(last);
  EXPECT_EQ(device.moves, 100);
}

TEST(CopyEngine, CarriesAnErrorToThoseWhoWaitAndMovesNothingAfterIt) {
  Device device(64);
  device.fails_at = 2;
  CopyEngine engine(device, "copying to the device");
  std::vector<std::byte> data(64);
  engine.wait(engine.submit(out(data, 0)));
  const auto failing = engine.submit(out(data, 0));
  const auto later = engine.submit(out(data, 0));
  try {
    engine.wait(failing);
    FAIL() << "no error";
  } catch (const SystemError& error) {
    EXPECT_STREQ(error.what(), "copying to the device failed: No space left on device");
  }
  EXPECT_THROW(engine.wait(later), SystemError);
  engine.drain();
  EXPECT_EQ(device.moves, 2);
}

TEST(CopyEngine, IsIdleOnceDrained) {
  Device device(64);
  CopyEngine engine(device, "copying");
  engine.drain();
  std::vector<std::byte> data(64);
  for (int i = 0; i < 10; ++i) engine.submit(in(data, 0));
  engine.drain();
  EXPECT_EQ(device.moves, 10);
}

}  // namespace
}  // namespace plimsoll
