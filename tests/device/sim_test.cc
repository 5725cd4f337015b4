// The simulated device keeps the promises of device/stream.h, and breaks what others may not assume.
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "plimsoll/device/device.h"
#include "plimsoll/memory/arena.h"

namespace plimsoll::device {
namespace {

class SimDevice : public testing::Test {
 protected:
  std::vector<int> read(size_t count) const {
    std::vector<int> numbers(count);
    device_.read(std::as_writable_bytes(std::span(numbers)), arena_.data());
    return numbers;
  }

  Device& device_ = find_device("sim");
  std::unique_ptr<PageSource> pages_ = device_.pages(1 << 16);
  Arena arena_{*pages_, 1 << 16, {1 << 20, "test"}};
};

using SimDeviceDeathTest = SimDevice;

TEST_F(SimDeviceDeathTest, HasMemoryThatTheHostCannotRead) {
  EXPECT_DEATH(static_cast<void>(*reinterpret_cast<volatile char*>(arena_.data())), "");
}

TEST_F(SimDevice, ReadsWhatWasWritten) {
  std::vector<int> numbers(100);
  std::iota(numbers.begin(), numbers.end(), 1);
  device_.write(arena_.data(), std::as_bytes(std::span(numbers)));
  EXPECT_EQ(read(100), numbers);
  EXPECT_EQ(*reinterpret_cast<int*>(device_.kernel_address(arena_.data() + 4)), 2);
  std::byte outside{};
  EXPECT_THROW(device_.kernel_address(&outside), ArgumentError);
}

TEST_F(SimDevice, RunsTheWorkOfAStreamInOrder) {
  const auto stream = device_.stream();
  auto* numbers = reinterpret_cast<int*>(device_.kernel_address(arena_.data()));
  int next = 0;
  const std::function<void()> append = [&] {
    numbers[next] = next + 1;
    ++next;
  };
  std::vector<int> expected;
  for (int i = 0; i < 3000; ++i) {  // more than the queue holds
    stream->enqueue(append);
    expected.push_back(i + 1);
  }
  std::byte* copy = arena_.data() + 3000 * sizeof(int);
  stream->copy(copy, arena_.data(), 3000 * sizeof(int));
  stream->zero(arena_.data(), 10 * sizeof(int));
  stream->copy(arena_.data() + 10 * sizeof(int), copy, 10 * sizeof(int));
  stream->synchronize();
  std::fill_n(expected.begin(), 10, 0);
  std::iota(expected.begin() + 10, expected.begin() + 20, 1);
  EXPECT_EQ(read(3000), expected);
}

TEST_F(SimDevice, OrdersStreamsByEvents) {
  const auto to_device = device_.stream({.queue = Queue::to_device});
  const auto compute = device_.stream();
  const auto arrived = device_.event();
  const auto used = device_.event();
  compute->wait(*used);  // never recorded: done
  auto* number = reinterpret_cast<int*>(device_.kernel_address(arena_.data()));
  std::vector<int> given(50);
  std::iota(given.begin(), given.end(), 1);
  int64_t sum = 0;
  const std::function<void()> add = [&] { sum += *number; };
  for (int& one : given) {
    to_device->wait(*used);
    to_device->copy(arena_.data(), reinterpret_cast<std::byte*>(&one), sizeof(one));
    to_device->record(*arrived);
    compute->wait(*arrived);
    compute->enqueue(add);
    compute->record(*used);
  }
  compute->synchronize();
  to_device->synchronize();
  EXPECT_EQ(sum, 50 * 51 / 2);
}

TEST_F(SimDevice, LeavesOutWhatComesAfterAnErrorAndTellsItOnce) {
  const auto stream = device_.stream();
  std::atomic<int> runs = 0;
  const std::function<void()> fail = [] { throw ArgumentError("no such row"); };
  const std::function<void()> count = [&] { ++runs; };
  stream->enqueue(count);
  stream->enqueue(fail);
  stream->enqueue(count);
  EXPECT_THROW(stream->synchronize(), ArgumentError);
  EXPECT_EQ(runs, 1);
  stream->enqueue(count);
  EXPECT_NO_THROW(stream->synchronize());
  EXPECT_EQ(runs, 2);
}

TEST_F(SimDevice, TurnsAFaultOfAKernelIntoAnErrorOnce) {
  const auto stream = device_.stream();
  const std::function<void()> find = [&] { *stream->fault() = {.op = 3, .operand = 1, .value = 70, .most = 63}; };
  stream->enqueue(find);
  try {
    stream->synchronize();
    FAIL();
  } catch (const KernelFault& fault) {
    EXPECT_EQ(fault.found().op, 3);
    EXPECT_EQ(fault.found().value, 70);
  }
  EXPECT_NO_THROW(stream->synchronize());
}

TEST(Devices, AreFoundByName) {
  EXPECT_EQ(find_device("cpu").traits().name, "cpu");
  EXPECT_TRUE(find_device("cpu").traits().is_host);
  EXPECT_FALSE(find_device("sim").traits().is_host);
  EXPECT_EQ(&find_device("sim"), &find_device("sim"));
  for (const char* name : {"abacus", "cuda:", "cuda:x", "cuda:1x", ""}) EXPECT_THROW(find_device(name), ArgumentError);
}

}  // namespace
}  // namespace plimsoll::device
