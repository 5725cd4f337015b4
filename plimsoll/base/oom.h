// Out of memory as data: who asked for what, who holds the rest, and what would help.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/base/budget.h"
#include "plimsoll/base/category.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/spec.h"

namespace plimsoll {

// A live block as a report shows it.
struct LiveBlock {
  int64_t bytes = 0;
  Category category = Category::other;
  std::string tag;
};

// All bytes are of the device in question at the moment of failure. `live_bytes` is the sum of `live_by_category`.
struct OomReport {
  // What was asked.
  int64_t requested_bytes = 0;
  std::optional<TensorSpec> spec;  // when a tensor was asked for
  std::string op;                  // the op it was for; empty when none
  std::string tag;
  Category category = Category::other;
  // Of whom.
  std::string device = "cpu";
  std::string allocator = "pool";
  Budget budget;
  // The state.
  int64_t live_bytes = 0;
  int64_t reserved_bytes = 0;  // live, plus what the allocator holds and nobody uses
  int64_t largest_free_bytes = 0;
  std::array<int64_t, kAllCategories.size()> live_by_category{};
  std::vector<LiveBlock> largest_live;  // largest first, at most ten
  // What was done and what can be done.
  std::vector<std::string> tried;  // "spill: 1.50 GiB freed"
  std::vector<std::string> help;

  // "OOM when allocating tensor with shape[384,192] and type float on cpu by allocator pool: ...": one line, in the
  // form that people search for.
  std::string first_line() const;
  std::string text() const;  // the first line, then all of it as an indented block
};

class ResourceExhausted : public Error {
 public:
  explicit ResourceExhausted(OomReport report);
  const OomReport& report() const { return *report_; }

 private:
  std::shared_ptr<const OomReport> report_;  // shared: exceptions are copied, and copying must not throw
};

}  // namespace plimsoll
