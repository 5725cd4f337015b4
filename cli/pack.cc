#include "plimsoll/pack/pack.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "cli/console.h"
#include "cli/verbs.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/pack/csv.h"
#include "plimsoll/pack/oracle.h"
#include "plimsoll/trace/file.h"

namespace plimsoll::cli {
namespace {

struct Options {
  std::string file;
  std::string trace;
  std::string capacity;
  std::vector<std::string> hints;
  std::string output;
  double time_limit_s = 10;
  int threads = 1;
  uint64_t seed = 1;
  bool verify = false;
  bool json = false;
};

// Offsets of an earlier packing by id; -1 for buffers that it did not have.
pack::Packing read_hint(const std::string& path, const std::vector<std::string>& ids) {
  const pack::Table earlier = pack::read_csv(path);
  std::unordered_map<std::string, int64_t> offset_of;
  for (size_t i = 0; i < earlier.ids.size(); ++i) {
    offset_of.emplace(earlier.ids[i], earlier.buffers[i].fixed_offset.value_or(-1));
  }
  pack::Packing hint;
  for (const std::string& id : ids) {
    const auto found = offset_of.find(id);
    hint.offsets.push_back(found == offset_of.end() ? -1 : found->second);
  }
  return hint;
}

// The blocks of a trace; the index of an event is its time. A block that is never freed lives to the end.
pack::Table table_of(const trace::Trace& trace) {
  pack::Table table;
  std::unordered_map<int64_t, size_t> live;
  const auto end = static_cast<int64_t>(trace.events.size());
  for (int64_t time = 0; time < end; ++time) {
    const trace::Event& event = trace.events[time];
    if (event.kind == trace::EventKind::free) {
      const auto block = live.extract(event.id);
      if (!block.empty()) table.buffers[block.mapped()].end = time;
      continue;
    }
    live[event.id] = table.buffers.size();
    table.ids.push_back(fmt::format("{}@{}", event.id, time));
    table.buffers.push_back({.bytes = event.bytes, .first = time, .end = end});
  }
  return table;
}

pack::Table read_table(const Options& options) {
  if (options.file.empty() == options.trace.empty()) throw ArgumentError("pack needs a FILE or --trace, one of them");
  return options.trace.empty() ? pack::read_csv(options.file) : table_of(trace::read(options.trace));
}

nlohmann::ordered_json to_json(const pack::Table& table, const pack::Result& result, double seconds) {
  nlohmann::ordered_json json = {{"packed", static_cast<bool>(result)},
                                 {"peak_bytes", result->peak_bytes},
                                 {"lower_bound_bytes", result->lower_bound_bytes},
                                 {"bound", result->bound.text()},
                                 {"optimal", result->optimal},
                                 {"seconds", seconds},
                                 {"nodes", result->nodes},
                                 {"buffers", table.buffers.size()}};
  if (!result) json["why"] = result.why();
  return json;
}

void print_result(const pack::Table& table, const pack::Result& result, double seconds) {
  const pack::Packing& packing = *result;
  if (!result) print("no packing: {}\n", result.why());
  if (!packing.offsets.empty()) {
    const double gap = 100.0 * static_cast<double>(packing.peak_bytes - packing.lower_bound_bytes) /
                       static_cast<double>(packing.lower_bound_bytes);
    print("peak         {:>20} bytes  {:>12}  {}\n", format_count(packing.peak_bytes), format_bytes(packing.peak_bytes),
          packing.optimal ? "optimal" : fmt::format("at most {:.2f} % above the optimum", gap));
  }
  print("lower bound  {:>20} bytes  {:>12}  {}\n", format_count(packing.lower_bound_bytes),
        format_bytes(packing.lower_bound_bytes), packing.bound.text());
  print("{} buffers, {:.3f} s, {} search nodes\n", format_count(static_cast<int64_t>(table.buffers.size())), seconds,
        format_count(packing.nodes));
}

void verify(const pack::Table& table, const pack::Packing& packing, int64_t capacity) {
  if (const auto fault = pack::find_fault(table.buffers, packing.offsets, capacity)) {
    throw Error("the packing is wrong, please report this: " + fault->text());
  }
}

// The library knows buffers by index, the user by id.
void name_too_large(const pack::Table& table, std::optional<int64_t> capacity, pack::Result& result) {
  for (size_t i = 0; capacity && i < table.buffers.size(); ++i) {
    const int64_t bytes = table.buffers[i].bytes;
    if (bytes <= *capacity) continue;
    result.reason =
        fmt::format("buffer {} of {} bytes is larger than the capacity of {}", table.ids[i], bytes, *capacity);
    return;
  }
}

pack::Options pack_options(const Options& options) {
  pack::Options result;
  if (!options.capacity.empty()) result.capacity = parse_bytes(options.capacity);
  result.time_limit_s = options.time_limit_s;
  result.threads = options.threads;
  result.seed = options.seed;
  return result;
}

int run(const Options& options) {
  const pack::Table table = read_table(options);
  std::vector<pack::Packing> hints;
  for (const std::string& path : options.hints) hints.push_back(read_hint(path, table.ids));
  pack::Options how = pack_options(options);
  how.hints = hints;
  const auto start = std::chrono::steady_clock::now();
  pack::Result result = pack::pack(table.buffers, how);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  name_too_large(table, how.capacity, result);
  if (options.verify && result) verify(table, *result, how.capacity.value_or(INT64_MAX));
  if (!options.output.empty() && result) write_file(options.output, pack::to_csv(table, result->offsets));
  if (options.json) {
    print_json(to_json(table, result, seconds));
  } else {
    print_result(table, result, seconds);
    if (options.verify && result) print("verified\n");
  }
  return result ? kDone : kFinding;
}

}  // namespace

void add_pack(const Command& app, int& status) {
  const Command verb = app.add_verb("pack", "Find offsets for buffers with lifetimes");
  verb.footer(
      "FILE has the columns id,lower,upper,size (half-open lifetimes) and optionally alignment,offset,gaps.\n"
      "Example: plimsoll pack buffers.csv --capacity 1MiB -o packed.csv");
  const auto options = std::make_shared<Options>();
  verb.add_option("FILE", options->file, "Buffers as CSV");
  verb.add_option("--trace", options->trace,
                  "Pack a recorded allocation trace instead: what a perfect allocator needs");
  verb.add_option("--capacity", options->capacity, "Decide whether this many bytes do; without it, minimise");
  verb.add_option("--time-limit", options->time_limit_s, "Seconds").shows_default().in_range(0, 1e9);
  verb.add_option("--threads", options->threads, "Threads of the search").shows_default().in_range(1, 256);
  verb.add_option("--seed", options->seed, "Of the search's random choices").shows_default();
  verb.add_option("--hint", options->hints, "An earlier output, to start from; may be repeated").repeats();
  verb.add_flag("--verify", options->verify, "Check the packing with the independent oracle");
  verb.add_option("-o,--output", options->output, "Write the buffers with their offsets here");
  verb.add_flag("--json", options->json, "Print JSON");
  verb.callback([options, &status] { status = run(*options); });
}

}  // namespace plimsoll::cli
