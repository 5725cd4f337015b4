#include "plimsoll/memory/limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "tests/memory/temp_folder.h"

namespace plimsoll {
namespace {

constexpr const char* kNoLimitV1 = "9223372036854771712\n";

std::vector<std::string> sources(const std::vector<Limit>& limits) {
  std::vector<std::string> names;
  for (const Limit& limit : limits) names.push_back(limit.source);
  return names;
}

// The limits of a made-up machine, without those of this process.
std::vector<Limit> group_limits(const TempFolder& machine) {
  std::vector<Limit> limits = machine_limits(machine.path());
  std::erase_if(limits, [](const Limit& limit) { return limit.source.starts_with("RLIMIT"); });
  return limits;
}

TEST(Limits, OfCgroupV1CountEveryAncestor) {
  const TempFolder machine;
  machine.write("proc/self/cgroup", "5:cpu,cpuacct:/jobs/7\n4:hugetlb,memory:/jobs/7\n");
  machine.write("sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "4096000\n");
  machine.write("sys/fs/cgroup/memory/jobs/7/memory.usage_in_bytes", "1000000\n");
  machine.write("sys/fs/cgroup/memory/jobs/7/memory.stat", "cache 9\ninactive_file 9\ntotal_inactive_file 400000\n");
  machine.write("sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "3000000\n");
  machine.write("sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "1000000\n");
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", kNoLimitV1);
  const std::vector<Limit> limits = group_limits(machine);
  ASSERT_EQ(sources(limits), (std::vector<std::string>{"cgroup v1 /jobs/7 memory.limit_in_bytes",
                                                       "cgroup v1 /jobs memory.limit_in_bytes"}));
  EXPECT_EQ(limits[0].bytes, 4'096'000 - (1'000'000 - 400'000)) << "the kernel drops file cache before it kills";
  EXPECT_EQ(limits[1].bytes, 2'000'000);
  EXPECT_EQ(machine_budget(machine.path()).source, "cgroup v1 /jobs memory.limit_in_bytes");
}

TEST(Limits, OfCgroupV2CountEveryAncestor) {
  const TempFolder machine;
  machine.write("proc/self/cgroup", "0::/user.slice/job\n");
  machine.write("sys/fs/cgroup/user.slice/job/memory.max", "max\n");
  machine.write("sys/fs/cgroup/user.slice/memory.max", "5000000\n");
  machine.write("sys/fs/cgroup/user.slice/memory.current", "2000000\n");
  machine.write("sys/fs/cgroup/user.slice/memory.stat", "anon 7\ninactive_file 500000\n");
  const std::vector<Limit> limits = group_limits(machine);
  ASSERT_EQ(sources(limits), std::vector<std::string>{"cgroup v2 /user.slice memory.max"});
  EXPECT_EQ(limits[0].bytes, 3'500'000);
}

TEST(Limits, OfCgroupV2AreFoundBesideV1) {
  const TempFolder machine;
  machine.write("proc/self/cgroup", "4:memory:/\n0::/job\n");
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", kNoLimitV1);
  machine.write("sys/fs/cgroup/unified/job/memory.max", "7000000\n");
  EXPECT_EQ(sources(group_limits(machine)), std::vector<std::string>{"cgroup v2 /job memory.max"});
}

TEST(Limits, OfAContainerThatSeesItsOwnGroupAsTheRootAreFound) {
  const TempFolder machine;
  machine.write("proc/self/cgroup", "4:memory:/docker/abc\n");
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "7000000\n");
  EXPECT_EQ(sources(group_limits(machine)), std::vector<std::string>{"cgroup v1 / memory.limit_in_bytes"});
}

TEST(Limits, AreNeverNegative) {
  const TempFolder machine;
  machine.write("proc/self/cgroup", "0::/\n");
  machine.write("sys/fs/cgroup/memory.max", "1000\n");
  machine.write("sys/fs/cgroup/memory.current", "5000\n");
  EXPECT_EQ(group_limits(machine).at(0).bytes, 0);
}

TEST(Limits, IncludeWhatTheMachineHasAvailable) {
  const TempFolder machine;
  machine.write("proc/meminfo", "MemTotal:  16000000 kB\nMemFree:  10 kB\nMemAvailable:    2048 kB\nSwapFree: 99 kB\n");
  const std::vector<Limit> limits = group_limits(machine);
  ASSERT_EQ(sources(limits), std::vector<std::string>{"MemAvailable"});
  EXPECT_EQ(limits[0].bytes, 2 * kMiB);
}

TEST(Limits, OfAMachineWithNothingAvailableAreZero) {
  const TempFolder machine;
  machine.write("proc/meminfo", "MemAvailable:    0 kB\n");
  EXPECT_EQ(group_limits(machine).at(0).bytes, 0);
}

TEST(Limits, SurviveFilesThatMakeNoSense) {
  const TempFolder machine;
  machine.write("proc/self/cgroup", "\n::\nnonsense\n0::no/slash\n4:memory:\n0::/../../other\n");
  machine.write("proc/meminfo", "MemAvailable: lots\n");
  EXPECT_TRUE(group_limits(machine).empty());
}

TEST(Limits, IncludeTheResourceLimitsOfTheProcessLessWhatIsInUse) {
  const TempFolder machine;
  machine.write("proc/self/status", "VmSize:\t  1024 kB\nVmData:\t 2048 kB\n");
  rlimit before{};
  getrlimit(RLIMIT_DATA, &before);
  const rlimit limit = {rlim_t{1} << 45, before.rlim_max};
  if (setrlimit(RLIMIT_DATA, &limit) != 0) GTEST_SKIP() << "RLIMIT_DATA cannot be set here";
  std::vector<Limit> limits = machine_limits(machine.path());
  setrlimit(RLIMIT_DATA, &before);
  std::erase_if(limits, [](const Limit& found) { return found.source != "RLIMIT_DATA"; });
  ASSERT_EQ(limits.size(), 1u);
  EXPECT_EQ(limits[0].bytes, (int64_t{1} << 45) - 2 * kMiB);
}

TEST(Limits, OfThisMachineGiveABudgetWithItsSource) {
  const Budget budget = machine_budget();
  EXPECT_GT(budget.bytes, 0);
  EXPECT_FALSE(budget.source.empty());
}

TEST(ParseBudget, ReadsSizesAndAuto) {
  EXPECT_EQ(parse_budget("2MiB", "--budget").bytes, 2 * kMiB);
  EXPECT_EQ(parse_budget("2MiB", "--budget").source, "--budget");
  EXPECT_GT(parse_budget("auto", "--budget").bytes, 0);
  EXPECT_NE(parse_budget("auto", "--budget").source, "--budget");
}

TEST(ParseBudget, RefusesZeroAndGarbage) {
  for (const char* text : {"0", "0GiB", "", "much", "-1", "1e30", "2 GiB please", "nan"}) {
    EXPECT_THROW(parse_budget(text, "--budget"), ArgumentError) << text;
  }
}

TEST(ParseBudget, RefusesMoreThanTheMachineHasAndSaysWhichRule) {
  const int64_t most = machine_budget().bytes;
  try {
    parse_budget("4EiB", "--budget");
    FAIL() << "4 EiB of " << most;
  } catch (const ArgumentError& error) {
    EXPECT_NE(std::string(error.what()).find("this machine has"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace plimsoll
