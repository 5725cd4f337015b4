#include "plimsoll/memory/spill_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <filesystem>
#include <numeric>
#include <vector>

#include "plimsoll/base/error.h"

namespace plimsoll {
namespace {

// A folder on a disk: the tests' own temporary folder may be in memory.
std::string folder() { return PLIMSOLL_SOURCE_DIR; }

std::byte* bytes(std::vector<int64_t>& numbers) { return reinterpret_cast<std::byte*>(numbers.data()); }

TEST(SpillFile, GivesBackWhatWasWrittenAndZerosBeforeThat) {
  SpillFile file(folder());
  std::vector<int64_t> numbers(10'000);
  std::iota(numbers.begin(), numbers.end(), 1);
  const auto size = static_cast<int64_t>(numbers.size() * sizeof(int64_t));
  const int64_t one = file.slot(1, size);
  const int64_t two = file.slot(2, size);
  EXPECT_EQ(file.slot(1, size), one);
  EXPECT_THROW(file.slot(1, size + 8), ArgumentError);
  const int64_t named = file.slot("one", size);
  EXPECT_EQ(file.slot("one", size), named);
  EXPECT_NE(file.slot("two", size), named);
  EXPECT_THROW(file.slot("one", size + 8), ArgumentError);
  file.write(bytes(numbers), size, two);
  std::vector<int64_t> first(numbers.size(), 7);
  std::vector<int64_t> second(numbers.size(), 7);
  file.read(bytes(first), size, one);
  file.wait(file.read(bytes(second), size, two));
  EXPECT_EQ(first, std::vector<int64_t>(numbers.size(), 0));
  EXPECT_EQ(second, numbers);
}

TEST(SpillFile, HasRoomForAStepThatProgramsShare) {
  SpillFile file(folder());
  const int64_t first = file.region(10'000);
  EXPECT_EQ(file.region(5'000), first);
  const int64_t slot = file.slot(0, 8);
  const int64_t larger = file.region(20'000);
  EXPECT_GE(slot, first + 10'000);
  EXPECT_GT(larger, slot);
  EXPECT_EQ(file.region(20'000), larger);
}

TEST(SpillFile, LeavesNothingInTheFolder) {
  const auto count = [] {
    return std::distance(std::filesystem::directory_iterator(folder()), std::filesystem::directory_iterator());
  };
  const auto before = count();
  SpillFile file(folder());
  file.slot(0, 1 << 20);
  EXPECT_EQ(count(), before);
}

TEST(SpillFile, FailsTypedWhenATransferDoesAndStaysFailed) {
  SpillFile file(folder());
  std::vector<int64_t> numbers(8);
  const int64_t slot = file.slot(0, 64);
  file.fail_transfer(1, ENOSPC);
  file.wait(file.write(bytes(numbers), 64, slot));
  const auto failing = file.write(bytes(numbers), 64, slot);
  try {
    file.wait(failing);
    FAIL() << "no error";
  } catch (const SystemError& error) {
    EXPECT_NE(std::string(error.what()).find("No space left on device"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(folder()), std::string::npos) << error.what();
  }
  EXPECT_THROW(file.wait(file.read(bytes(numbers), 64, slot)), SystemError);
}

// By the limit on file sizes, whose signal must not reach the process.
TEST(SpillFile, SaysSoWhenTheDiskIsFull) {
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{1 << 20, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  SpillFile file(folder());
  EXPECT_NO_THROW(file.slot(0, 1 << 19));
  EXPECT_THROW(file.slot(1, 1 << 20), SystemError);
  const rlimit smaller{1 << 12, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &smaller);
  std::vector<int64_t> numbers(1 << 16);
  EXPECT_THROW(file.wait(file.write(bytes(numbers), 1 << 19, 0)), SystemError);
  setrlimit(RLIMIT_FSIZE, &old);
}

TEST(SpillFile, RefusesFoldersThatCannotHoldIt) {
  EXPECT_THROW(SpillFile("/no/such/folder"), SystemError);
  EXPECT_THROW(SpillFile("/proc"), SystemError);
  if (std::filesystem::exists("/dev/shm")) {
    EXPECT_THROW(SpillFile("/dev/shm"), SystemError);
  }
}

}  // namespace
}  // namespace plimsoll
