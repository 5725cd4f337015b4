// What a process and its children hold, as the kernel counts it, and how near that is to the limit that binds them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace plimsoll {

struct TreeMemory {
  int processes = 0;          // 0: the process is gone
  int64_t rss_bytes = 0;      // pages that several hold are counted in each
  int64_t pss_bytes = 0;      // those shared out among all that hold them; 0 where the system does not tell
  int64_t shared_bytes = 0;   // shared memory and files in it, of rss_bytes
  int64_t swapped_bytes = 0;  // not in RAM
};

// Of `pid` and all its descendants. `root` is the folder that holds proc and sys, for tests.
TreeMemory tree_memory(pid_t pid, const std::string& root = "");

// The limit that a process meets first: that of its cgroup or of one above it, else the machine's RAM.
struct LimitUse {
  int64_t used_bytes = 0;        // that cannot be taken back, by everyone under the limit
  int64_t limit_bytes = 0;       // 0: not known
  int64_t page_cache_bytes = 0;  // files in RAM, beside that for the most part
  std::string source;            // "cgroup v2 /jobs/7", "RAM of this machine"
};
LimitUse limit_use(pid_t pid, const std::string& root = "");

// Bytes over time, and when they will reach a limit if they go on as they did lately.
class Trend {
 public:
  // Times in seconds, ascending.
  void add(double time, int64_t bytes);

  double bytes_per_second() const;  // the slope of a line through the last half minute; 0 of less than a second
  // Until `limit` is reached by that slope; nothing where it falls, is too flat to tell, or takes more than an hour.
  std::optional<double> seconds_until(int64_t limit) const;

 private:
  struct Point {
    double time;
    double bytes;
  };
  std::deque<Point> points_;
};

}  // namespace plimsoll
