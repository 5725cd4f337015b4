#include "plimsoll/plan/estimate.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
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

Category category_of(const Program& program, const Storage& storage) {
  return storage.owner ? program[storage.owner].category : Category::scratch;
}

CategoryBytes by_category(const Program& program, const std::vector<Storage>& storages) {
  CategoryBytes bytes = {};
  for (const Storage& storage : storages) add_to(bytes, category_of(program, storage), storage.bytes);
  return bytes;
}

// All sums of parts of the storages then fit, too.
void check_total(const CategoryBytes& bytes) {
  int64_t total = 0;
  for (const int64_t part : bytes) total = sum(total, part);
}

// "conv %layer1.0.conv1"
std::string text_of(const Program& program, const Op& op) {
  return fmt::format("{} %{}", op.def->name, program[op.outputs[0]].name);
}

PeakPoint peak_point_at(const Program& program, int32_t time) {
  if (program.ops.empty()) return {};
  const Op& op = program.ops[static_cast<size_t>(time)];
  return {time, text_of(program, op), op.phase};
}

LiveTensor describe(const Program& program, const Storage& storage) {
  const Category category = category_of(program, storage);
  if (storage.owner) {
    const program::ValueInfo& value = program[storage.owner];
    return {value.name, value.type.spec(), category, storage.bytes};
  }
  const Op& op = program.ops[static_cast<size_t>(storage.first)];
  return {"scratch of " + text_of(program, op), {DType::u8, Shape{storage.bytes}}, category, storage.bytes};
}

std::vector<LiveTensor> name_largest(const Program& program, std::vector<Storage> alive, size_t count) {
  std::stable_sort(alive.begin(), alive.end(), [](const Storage& a, const Storage& b) { return a.bytes > b.bytes; });
  alive.resize(std::min(alive.size(), count));
  std::vector<LiveTensor> largest;
  for (const Storage& storage : alive) largest.push_back(describe(program, storage));
  return largest;
}

}  // namespace

Estimate estimate(const Program& program, const EstimateOptions& options) {
  const Liveness liveness = find_liveness(program, {options.in_place, options.scratch_bytes});
  Estimate estimate;
  estimate.total = by_category(program, liveness.storages);
  check_total(estimate.total);
  estimate.live_bytes = live_bytes(liveness);
  const auto peak = std::max_element(estimate.live_bytes.begin(), estimate.live_bytes.end());
  const auto time = static_cast<int32_t>(peak - estimate.live_bytes.begin());
  const std::vector<Storage> alive = alive_at(liveness, time);
  estimate.live_peak_bytes = *peak;
  estimate.peak_at = peak_point_at(program, time);
  estimate.at_peak = by_category(program, alive);
  estimate.largest = name_largest(program, alive, static_cast<size_t>(options.largest));
  for (const Op& op : program.ops) estimate.phases.push_back(op.phase);
  const Placement placement = place(liveness, options.placement);
  estimate.peak_bytes = placement.arena_bytes;
  estimate.optimal = placement.optimal;
  return estimate;
}

Estimate estimate(const kernels::Lowered& lowered, EstimateOptions options) {
  options.scratch_bytes = lowered.scratch_bytes();
  return estimate(lowered.program, options);
}

}  // namespace plimsoll::plan
