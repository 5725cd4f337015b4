// A unit of systemd that was killed: at its own maximum, or because the machine ran out.
#include "plimsoll/explain/unit_limit.h"

#include <gtest/gtest.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/causes.h"
#include "plimsoll/explain/log.h"

namespace plimsoll::explain {
namespace {

const std::string kKilled =
    "Jan 05 08:00:12 box systemd[1]: app.service: A process of this unit has been killed by the OOM killer.\n"
    "Jan 05 08:00:12 box systemd[1]: app.service: Failed with result 'oom-kill'.\n";

Diagnosis only(const std::string& text) {
  const LogFindings findings = read_log(*open_memory(text, "log"));
  EXPECT_EQ(findings.failures.size(), 1u) << text;
  return findings.failures.empty() ? Diagnosis{} : diagnose(findings.failures[0]);
}

TEST(UnitLimit, IsReachedWhereTheStatusSaysSo) {
  for (const std::string status : {
           "     Memory: 2.0G (max: 2.0G)\n",
           "     Memory: 1.9G (max: 2.0G available: 12.0M peak: 2.0G)\n",
           "     Memory: 512.0M (limit: 512.0M)\n",
           "     Memory: 0B (high: 1.5G max: 2.0G available: 1.5G peak: 2.0G)\n",
           "MemoryMax=2147483648\nMemoryPeak=2147483648\n",
           "MemoryMax=2G\nJan 05 08:00:12 box systemd[1]: app.service: Consumed 9.1s CPU time, 2G memory peak.\n",
       }) {
    for (const std::string& log : {status + kKilled, kKilled + status}) {
      const Diagnosis diagnosis = only(log);
      EXPECT_EQ(diagnosis.cause, Cause::cgroup_limit) << log;
      EXPECT_EQ(diagnosis.framework, Framework::systemd) << log;
      ASSERT_FALSE(diagnosis.remedies.empty()) << log;
      EXPECT_EQ(diagnosis.remedies[0].id, "systemd.limit") << log;
    }
  }
}

TEST(UnitLimit, IsNotReachedWhereItSaysOtherwiseOrNothing) {
  for (const std::string status : {
           "",
           "     Memory: 512.0M (max: 2.0G)\n",
           "     Memory: 512.0M (peak: 2.0G)\n",
           "     Memory: 2.0G\n",
           "MemoryMax=infinity\nMemoryPeak=2147483648\n",
           "MemoryMax=2147483648\nMemoryPeak=214748364\n",
       }) {
    EXPECT_EQ(only(status + kKilled).cause, Cause::host_memory) << status;
    EXPECT_EQ(only(kKilled + status).cause, Cause::host_memory) << status;
  }
}

TEST(UnitLimit, IsToldByTheStatusAlone) {
  const Diagnosis diagnosis = only(
      "x app.service - App\n     Active: failed (Result: oom-kill) since Fri 2024-01-05 08:00:12 UTC\n"
      "     Memory: 0B (max: 2.0G peak: 2.0G)\n");
  EXPECT_EQ(diagnosis.cause, Cause::cgroup_limit);
}

}  // namespace
}  // namespace plimsoll::explain
