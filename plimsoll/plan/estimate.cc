#include "plimsoll/plan/estimate.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/pack/pack.h"
#include "plimsoll/plan/liveness.h"
#include "plimsoll/program/op.h"

namespace plimsoll::plan {
namespace {

using program::Op;
using program::Program;

int64_t sum(int64_t a, int64_t b) {
  const auto total = checked_add(a, b);
  if (!total) throw ArgumentError("the tensors of the step together take more bytes than fit in 63 bits");
  return *total;
}

void add_to(CategoryBytes& bytes, Category category, int64_t more) {
  int64_t& held = bytes[static_cast<size_t>(category)];
  held = sum(held, more);
}

CategoryBytes by_category(const Program& program, const std::vector<Storage>& storages) {
  CategoryBytes bytes = {};
  for (const Storage& storage : storages) add_to(bytes, program[storage.owner].category, storage.bytes);
  return bytes;
}

// All sums of parts of the storages then fit, too.
void check_total(const CategoryBytes& bytes) {
  int64_t total = 0;
  for (const int64_t part : bytes) total = sum(total, part);
}

Moment moment_at(const Program& program, int32_t time) {
  if (program.ops.empty()) return {};
  const Op& op = program.ops[static_cast<size_t>(time)];
  return {time, fmt::format("{} %{}", op.def->name, program[op.outputs[0]].name), op.phase};
}

std::vector<LiveTensor> name_largest(const Program& program, std::vector<Storage> alive, size_t count) {
  std::stable_sort(alive.begin(), alive.end(), [](const Storage& a, const Storage& b) { return a.bytes > b.bytes; });
  alive.resize(std::min(alive.size(), count));
  std::vector<LiveTensor> largest;
  for (const Storage& storage : alive) {
    const program::ValueInfo& value = program[storage.owner];
    largest.push_back({value.name, value.type.spec(), value.category, storage.bytes});
  }
  return largest;
}

// What came in is alive all the time, so it may as well lie below everything else.
void place(const Liveness& liveness, const EstimateOptions& options, Estimate& estimate) {
  std::vector<pack::Buffer> moving;
  int64_t fixed = 0;
  for (const Buffer& buffer : liveness.buffers) {
    if (buffer.bytes == 0) continue;
    const int64_t bytes = align_up(buffer.bytes, options.alignment);
    if (buffer.persistent) {
      fixed = sum(fixed, bytes);
    } else {
      moving.push_back({.bytes = bytes, .first = buffer.first, .end = buffer.end});
    }
  }
  const pack::Result packed = pack::pack(moving, {.node_limit = options.search_nodes});
  estimate.peak_bytes = sum(fixed, packed->peak_bytes);
  estimate.optimal = packed->optimal;
}

}  // namespace

Estimate estimate(const Program& program, const EstimateOptions& options) {
  const Liveness liveness = find_liveness(program, {.in_place = options.in_place});
  Estimate estimate;
  estimate.total = by_category(program, liveness.storages);
  check_total(estimate.total);
  estimate.live_bytes = live_bytes(liveness);
  const auto peak = std::max_element(estimate.live_bytes.begin(), estimate.live_bytes.end());
  const auto time = static_cast<int32_t>(peak - estimate.live_bytes.begin());
  const std::vector<Storage> alive = alive_at(liveness, time);
  estimate.live_peak_bytes = *peak;
  estimate.moment = moment_at(program, time);
  estimate.at_peak = by_category(program, alive);
  estimate.largest = name_largest(program, alive, static_cast<size_t>(options.largest));
  for (const Op& op : program.ops) estimate.phases.push_back(op.phase);
  place(liveness, options, estimate);
  return estimate;
}

}  // namespace plimsoll::plan
