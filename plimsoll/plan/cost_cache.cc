#include "plimsoll/plan/cost_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "plimsoll/device/device.h"
#include "plimsoll/program/op.h"

namespace plimsoll::plan {
namespace {

using program::Op;
using program::Value;

constexpr int64_t kFreshDays = 30;

// How far what was measured of one use of an op may scale the estimate of another, and up to which distance in full.
constexpr double kMostScale = 16;
constexpr double kNear = 3;

// By which what is not measured may be off, either way.
constexpr double kScaledRange = 1.6;
constexpr double kEstimatedRange = 3;
constexpr double kMeasuredShare = 0.95;

// The host as its name, "cpu"; a card as what its times are kept under.
std::string name_of(const std::string& device) {
  const device::Device& found = device::find_device(device);
  return found.overhead_bytes() > 0 ? found.cost_id() : device;
}

// "cpu", "cpu+amx"
std::string device_text(const kernels::Lowered& lowered) {
  return name_of(lowered.device) + (lowered.amx_tiles ? "+amx" : "") + (device::allows_tf32() ? "+tf32" : "");
}

// How a value's elements are ordered, as kernels find it.
std::string layout_text(const kernels::Lowered& lowered, Value value) {
  const auto place = static_cast<size_t>(value.index);
  constexpr std::string_view kTexts[] = {"", "@blocked", "@channels_last"};
  const auto layout = place < lowered.layouts.size() ? lowered.layouts[place] : kernels::Layout::strided;
  return std::string(kTexts[static_cast<size_t>(layout)]);
}

std::string operand_text(const kernels::Lowered& lowered, Value value) {
  const program::ValueInfo& info = lowered.program[value];
  const std::string strides = info.view ? info.view->strides.text() : "";
  return info.type.text() + strides + layout_text(lowered, value);
}

// The op, its device and its threads, with which every key begins.
std::string family_of(const kernels::Lowered& lowered, const Op& op) {
  return fmt::format("{}/{}/{}(", op.def->name, device_text(lowered), lowered.threads);
}

double log_ratio(double a, double b) { return std::abs(std::log((a + 1) / (b + 1))); }

// How unlike two uses of an op are: by their size, and more so by their arithmetic for each byte.
double distance(const MeasuredOp& known, const kernels::LoweredOp& op) {
  constexpr double kWeightOfIntensity = 4;
  const auto flops = static_cast<double>(op.flops);
  const auto bytes = static_cast<double>(op.bytes);
  const auto known_flops = static_cast<double>(known.flops);
  const auto known_bytes = static_cast<double>(known.bytes);
  return log_ratio(bytes, known_bytes) +
         kWeightOfIntensity * log_ratio(flops / (bytes + 1), known_flops / (known_bytes + 1));
}

// The measured use of the same op that is most like this one.
const MeasuredOp* most_like(const CostTable& table, const kernels::LoweredOp& op, const std::string& family) {
  const MeasuredOp* nearest = nullptr;
  for (auto it = table.lower_bound(family); it != table.end() && it->first.starts_with(family); ++it) {
    if (!it->second.quiet) continue;
    if (nearest == nullptr || distance(it->second, op) < distance(*nearest, op)) nearest = &it->second;
  }
  return nearest;
}

// By how much the estimate of an op is corrected by what was measured of another use. What is far from it says little.
double scale_from(const MeasuredOp& like, double estimated_s, const kernels::LoweredOp& op) {
  const double off = std::clamp(like.seconds / estimated_s, 1 / kMostScale, kMostScale);
  return std::pow(off, kNear / std::max(kNear, distance(like, op)));
}

// Of a calibration: what it did in a second.
double rate_of(int64_t amount, const MeasuredOp& measured) {
  constexpr double kLeast = 1e-9;
  return static_cast<double>(amount) / std::max(measured.seconds, kLeast);
}

}  // namespace

int64_t today() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::hours>(since).count() / 24;
}

bool is_stale(const MeasuredOp& op, int64_t day) { return day - op.day >= kFreshDays; }

MeasuredOp better_of(const MeasuredOp& a, const MeasuredOp& b) {
  const MeasuredOp& later = a.day > b.day ? a : b;
  const MeasuredOp& earlier = a.day > b.day ? b : a;
  if (a.quiet != b.quiet) return a.quiet ? a : b;
  if (is_stale(earlier, later.day)) return later;
  MeasuredOp better = a.seconds <= b.seconds ? a : b;
  better.day = later.day;
  better.runs = std::max(a.runs, b.runs);
  return better;
}

std::string cost_key(const kernels::Lowered& lowered, int32_t place) {
  const program::Program& program = lowered.program;
  const Op& op = program.ops[static_cast<size_t>(place)];
  std::string key = family_of(lowered, op);
  for (const Value input : op.inputs) key += operand_text(lowered, input) + ";";
  key += ")";
  for (const Value output : op.outputs) key += output ? operand_text(lowered, output) + ";" : "_;";
  const bool in_blocks =
      static_cast<size_t>(place) < lowered.blocked_ops.size() && lowered.blocked_ops[static_cast<size_t>(place)];
  if (in_blocks) key += "@blocked";
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    key += fmt::format(" {}={}", op.def->attributes[i].name, op.attributes[i].text());
  }
  const int64_t scratch = lowered.ops[static_cast<size_t>(place)].kernel.scratch_bytes;
  return scratch == 0 ? key : key + fmt::format(" scratch={}", scratch);
}

std::string calibration_key(const std::string& device, int threads, const std::string& kernel) {
  return fmt::format("calibration/{}/{}/{}", name_of(device), threads, kernel);
}

Roofline roofline_of(const CostTable& table, const std::string& device, int threads) {
  Roofline machine;
  const auto find = [&](const char* kernel) {
    const auto found = table.find(calibration_key(device, threads, kernel));
    return found == table.end() ? nullptr : &found->second;
  };
  const MeasuredOp* matmul = find("matmul");
  const MeasuredOp* conv = find("conv");
  const MeasuredOp* copy = find("copy");
  if (matmul == nullptr || conv == nullptr || copy == nullptr) {
    const auto rates = device::find_device(device).rates();
    if (!rates) return machine;
    const double flops_per_s = rates->flops_per_s / threads;
    return {flops_per_s, flops_per_s, rates->bytes_per_s};
  }
  machine.flops_per_s = rate_of(matmul->flops, *matmul) / threads;
  machine.conv_flops_per_s = rate_of(conv->flops, *conv) / threads;
  machine.bytes_per_s = rate_of(copy->bytes, *copy);
  return machine;
}

double Costs::low_s() const { return measured_s + scaled_s / kScaledRange + estimated_s / kEstimatedRange; }
double Costs::high_s() const { return measured_s + scaled_s * kScaledRange + estimated_s * kEstimatedRange; }
bool Costs::is_measured() const { return measured_s >= kMeasuredShare * all_s(); }

Costs costs_of(const kernels::Lowered& lowered, const CostTable& table) {
  const Roofline machine = roofline_of(table, lowered.device, lowered.threads);
  Costs costs{roofline_seconds(lowered, machine)};
  for (size_t i = 0; i < costs.seconds.size(); ++i) {
    const kernels::LoweredOp& op = lowered.ops[i];
    const Op& use = lowered.program.ops[i];
    if (!op.kernel.bind) continue;
    double& seconds = costs.seconds[i];
    if (const auto found = table.find(cost_key(lowered, static_cast<int32_t>(i))); found != table.end()) {
      seconds = found->second.seconds;
      costs.measured_s += seconds;
    } else if (const auto* like = most_like(table, op, family_of(lowered, use))) {
      seconds *=
          scale_from(*like, roofline_seconds({like->flops, like->bytes, is_conv(use)}, lowered.threads, machine), op);
      costs.scaled_s += seconds;
    } else {
      costs.estimated_s += seconds;
    }
  }
  return costs;
}

std::string cost_cache_path() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return std::string(cache) + "/plimsoll/costs.json";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return std::string(home) + "/.cache/plimsoll/costs.json";
  return "";
}

}  // namespace plimsoll::plan
