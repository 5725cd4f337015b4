#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/console.h"
#include "cli/verbs.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/replay/policies.h"
#include "plimsoll/report/oom_json.h"
#include "plimsoll/trace/file.h"

namespace plimsoll::cli {
namespace {

struct Options {
  std::string trace;
  std::string policy = "pool";
  std::string page = "2MiB";
  std::string capacity;
  bool json = false;
};

replay::Device device_of(const Options& options) {
  replay::Device device;
  device.page_bytes = parse_bytes(options.page);
  if (!options.capacity.empty()) device.capacity = {parse_bytes(options.capacity), "--capacity"};
  return device;
}

void print_json(const Options& options, const replay::Device& device, const replay::ReplayResult& result) {
  const nlohmann::ordered_json json = {{"policy", options.policy},
                                       {"events", result.events},
                                       {"live_peak_bytes", result.live_peak_bytes},
                                       {"reserved_peak_bytes", result.policy.reserved_peak_bytes},
                                       {"ratio", result.ratio()},
                                       {"page_bytes", device.page_bytes},
                                       {"pages_committed", result.policy.pages_committed},
                                       {"pages_remapped", result.policy.pages_remapped},
                                       {"remapping_allocations", result.policy.remapping_allocations},
                                       {"remapping_per_1000_events", result.remapping_per_1000_events()},
                                       {"ns_per_event", result.ns_per_event}};
  cli::print_json(json);
}

void print_text(const Options& options, const replay::Device& device, const replay::ReplayResult& result) {
  const auto bytes = [](std::string_view what, int64_t count) {
    print("  {:<16}{:>12}  ({} bytes)\n", what, format_bytes(count), format_count(count));
  };
  const replay::PolicyStats& stats = result.policy;
  print("{}: {} events against {}\n", std::filesystem::path(options.trace).filename().string(),
        format_count(result.events), options.policy);
  bytes("live peak", result.live_peak_bytes);
  bytes("reserved peak", stats.reserved_peak_bytes);
  print("  {:<16}{:>12.4f}\n", "ratio", result.ratio());
  print("  {:<16}{:>12}  of {}\n", "pages committed", format_count(stats.pages_committed),
        format_bytes(device.page_bytes));
  print("  {:<16}{:>12}  by {} allocations, {:.2f} per 1000 events\n", "pages remapped",
        format_count(stats.pages_remapped), format_count(stats.remapping_allocations),
        result.remapping_per_1000_events());
  print("  {:<16}{:>12.1f}  ns of processor time\n", "per event", result.ns_per_event);
}

// A trace of a few events is over before the first cache miss is: it is replayed anew some times, for the median time.
replay::ReplayResult replay_for_time(const trace::Trace& trace, const Options& options, const replay::Device& device,
                                     replay::ReplayResult result) {
  constexpr int64_t kEnoughEvents = 100'000;
  constexpr int64_t kMostReplays = 15;
  const int64_t replays = std::min(kMostReplays, kEnoughEvents / std::max<int64_t>(1, result.events));
  std::vector<double> times = {result.ns_per_event};
  while (static_cast<int64_t>(times.size()) < replays) {
    times.push_back(replay::replay(trace, *replay::make_policy(options.policy, device)).ns_per_event);
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  result.ns_per_event = times[times.size() / 2];
  return result;
}

void run(const Options& options, int& status) {
  const replay::Device device = device_of(options);
  const auto policy = replay::make_policy(options.policy, device);
  const trace::Trace trace = trace::read(options.trace);
  try {
    const replay::ReplayResult result = replay_for_time(trace, options, device, replay::replay(trace, *policy));
    options.json ? print_json(options, device, result) : print_text(options, device, result);
  } catch (const ResourceExhausted& error) {
    if (!options.json) throw;
    cli::print_json(to_json(error.report()));
    status = kFinding;
  }
}

}  // namespace

void add_replay(const Command& app, int& status) {
  const Command verb = app.add_verb("replay", "Replay an allocation trace against an allocator");
  verb.footer("Example: plimsoll replay run.csv.gz --policy pool --capacity 80GiB");
  const auto options = std::make_shared<Options>();
  verb.add_option("TRACE", options->trace, "A trace as CSV, gzip or plimsoll's binary form").required();
  verb.add_option("--policy", options->policy, "The allocator: " + replay::policy_names()).shows_default();
  verb.add_option("--page", options->page, "Page size of the simulated device").shows_default();
  verb.add_option("--capacity", options->capacity, "Memory of the simulated device; without it, no end");
  verb.add_flag("--json", options->json, "Print JSON");
  verb.callback([options, &status] { run(*options, status); });
}

}  // namespace plimsoll::cli
