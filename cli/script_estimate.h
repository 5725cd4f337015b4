// `estimate -- COMMAND`: a PyTorch script run on a simulated card, and what it would take on a real one.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/child.h"
#include "cli/companions.h"
#include "cli/page_options.h"
#include "cli/verbs.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/base/oom.h"
#include "plimsoll/explain/expandable.h"
#include "plimsoll/explain/explain.h"
#include "plimsoll/memory/replay/policies.h"
#include "plimsoll/report/chrome_trace.h"
#include "plimsoll/report/html_page.h"
#include "plimsoll/trace/file.h"

namespace plimsoll::cli {

struct ScriptOptions {
  std::vector<std::string> command;
  std::string gpu = "h200";
  int64_t steps = 0;       // 0: until steps repeat
  bool fake_data = false;  // one batch of each data loader, again and again
  bool json = false;
  PageOptions page = {};
};

namespace script {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct Card {
  std::string name;   // as --gpu has it
  fs::path file;      // its description
  std::string title;  // as the driver calls it
  int64_t memory_bytes = 0;
  int64_t context_bytes = 0;
  std::string context_source;
  int64_t left_bytes() const { return memory_bytes - context_bytes; }
};

inline ordered_json read_json(const fs::path& path) {
  std::ifstream file(path);
  if (!file) throw SystemError::from_errno("opening " + path.string(), errno);
  return ordered_json::parse(file);
}

inline Card read_card(const fs::path& file) {
  const ordered_json json = read_json(file);
  return {file.stem().string(),    file, json.at("deviceName"), json.at("totalGlobalMem"), json.at("contextBytes"),
          json.at("contextSource")};
}

// In the order of their memory.
inline std::vector<Card> all_cards() {
  std::vector<Card> cards;
  for (const auto& entry : fs::directory_iterator(python_folder() / "plimsoll" / "torch" / "cards")) {
    if (entry.path().extension() == ".json") cards.push_back(read_card(entry.path()));
  }
  std::sort(cards.begin(), cards.end(), [](const Card& a, const Card& b) {
    return std::tie(a.memory_bytes, a.name) < std::tie(b.memory_bytes, b.name);
  });
  return cards;
}

// A card by its name; or a size, for a card like the H200 with that much memory.
inline Card find_card(const std::string& text) {
  std::string names;
  std::optional<Card> model;
  for (const Card& card : all_cards()) {
    if (card.name == text) return card;
    if (card.name == "h200") model = card;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", card.name);
  }
  try {
    model->memory_bytes = parse_bytes(text);
  } catch (const ArgumentError&) {
    throw ArgumentError(fmt::format("--gpu is {}: expected {}, or a size like 24GiB", quote(text), names));
  }
  model->title = fmt::format("a card of {}", format_bytes(model->memory_bytes));
  model->name = text;
  return *model;
}

class RunFolder {
 public:
  RunFolder() {
    std::string path = (fs::temp_directory_path() / "plimsoll-estimate-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) throw SystemError::from_errno("making a folder " + path, errno);
    path_ = path;
  }
  ~RunFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

inline std::string before(const std::string& first, const char* variable) {
  const char* const rest = std::getenv(variable);
  return rest == nullptr || *rest == '\0' ? first : first + ':' + rest;
}

inline std::map<std::string, std::string> environment_of(const ScriptOptions& options, const Card& card,
                                                         const RunFolder& folder) {
  const std::string site = (python_folder() / "plimsoll" / "torch" / "estimate_site").string();
  return {{"LD_PRELOAD", before(simulation_library().string(), "LD_PRELOAD")},
          {"PYTHONPATH", before(site, "PYTHONPATH")},
          {"PLIMSOLL_SIM_CARD", card.file.string()},
          {"PLIMSOLL_ESTIMATE_DIR", folder.path().string()},
          {"PLIMSOLL_ESTIMATE_STEPS", std::to_string(options.steps)},
          {"PLIMSOLL_ESTIMATE_FAKE_DATA", options.fake_data ? "1" : ""},
          {"CUDA_VISIBLE_DEVICES", "0"}};
}

// The process that reserved most: data loaders and launchers leave files as well.
inline fs::path largest_result(const RunFolder& folder) {
  fs::path largest;
  int64_t most = -1;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    if (entry.path().extension() != ".json") continue;
    const int64_t bytes = read_json(entry.path()).at("peak_reserved_bytes");
    if (bytes > most) most = bytes, largest = entry.path();
  }
  return largest;
}

// What the trace takes under an allocator; none when it runs out of `capacity` (0: no limit).
inline std::optional<int64_t> reserved_under(const trace::Trace& trace, std::string_view allocator, int64_t capacity) {
  replay::Device device;
  if (capacity > 0) device.capacity = {capacity, "the card"};
  try {
    if (allocator == "expandable") {
      explain::ExpandableSegments segments(device);
      return replay::replay(trace, segments).policy.reserved_peak_bytes;
    }
    return replay::replay(trace, *replay::make_policy(allocator, device)).policy.reserved_peak_bytes;
  } catch (const ResourceExhausted&) {
    return std::nullopt;
  }
}

inline trace::Trace at_half_the_batch(trace::Trace trace) {
  for (trace::Event& event : trace.events) {
    const Category category = trace.tags[event.tag].category;
    if (category == Category::activation || category == Category::input) event.bytes = (event.bytes + 1) / 2;
  }
  return trace;
}

// A way to do with less: replayed, not guessed.
struct Remedy {
  std::string key;
  std::string what;
  std::string how;
  int64_t reserved_bytes = 0;
};

inline std::vector<Remedy> replay_remedies(const trace::Trace& trace) {
  const auto bytes = [](const trace::Trace& of, const char* allocator) {
    return reserved_under(of, allocator, 0).value_or(0);
  };
  return {{"expandable_segments", "expandable segments", "PYTORCH_ALLOC_CONF=expandable_segments:True",
           bytes(trace, "expandable")},
          {"pool", "our pool", "plimsoll exec --pool -- ...", bytes(trace, "pool")},
          {"half_batch", "half the batch", "activations and inputs halved, the same allocator",
           bytes(at_half_the_batch(trace), "torch")}};
}

struct Findings {
  Card card;
  ordered_json result;  // what the script's process wrote
  bool fits = false;
  std::vector<Remedy> remedies;
  std::vector<std::string> cards_that_fit;
};

inline bool fits_on(const trace::Trace& trace, const Card& card) {
  return card.left_bytes() > 0 && reserved_under(trace, "torch", card.left_bytes()).has_value();
}

inline ordered_json to_json(const Findings& found) {
  ordered_json json = {{"gpu", found.card.name},
                       {"fits", found.fits},
                       {"memory_bytes", found.card.memory_bytes},
                       {"context_bytes", found.card.context_bytes}};
  json.update(found.result);
  for (const Remedy& remedy : found.remedies) json[remedy.key + "_reserved_bytes"] = remedy.reserved_bytes;
  json["fits_on"] = found.cards_that_fit;
  return json;
}

inline void print_bytes(std::string_view what, int64_t bytes, std::string_view note) {
  print("  {:<19} {:>11}  {:>17} bytes  {}\n", what, format_bytes(bytes), format_count(bytes), note);
}

inline void print_text(const Findings& found, const ScriptOptions& options) {
  const ordered_json& result = found.result;
  cli::print("{} on {} ({}): {}\n", fmt::join(options.command, " "), found.card.title,
             format_bytes(found.card.memory_bytes), found.fits ? "fits" : "DOES NOT FIT");
  print_bytes("peak allocated", result.at("peak_allocated_bytes"), "tensors and workspaces");
  print_bytes("peak reserved", result.at("peak_reserved_bytes"), "by PyTorch's caching allocator");
  print_bytes("context", found.card.context_bytes, "CUDA, cuBLAS, cuDNN: " + found.card.context_source);
  print("\n  the same steps would reserve\n");
  for (const Remedy& remedy : found.remedies) print_bytes(remedy.what, remedy.reserved_bytes, remedy.how);
  if (!found.fits) print("  plimsoll.torch.fit() makes a step fit a budget: docs/pytorch.md\n");
  print("\n  at the peak\n");
  for (const auto& [name, bytes] : result.at("at_peak").items()) {
    print_bytes(name.substr(0, name.rfind("_bytes")), bytes.get<int64_t>(), "");
  }
  print("\n  most in\n");
  for (const ordered_json& module : result.at("modules")) {
    print("  {:>11}  {}\n", format_bytes(module.at("bytes").get<int64_t>()), module.at("name").get<std::string>());
  }
  print("\n  fits on: {}\n", found.cards_that_fit.empty() ? "none of the cards that are known"
                                                          : fmt::format("{}", fmt::join(found.cards_that_fit, ", ")));
  print("  {} optimizer steps in {:.1f} s with PyTorch {}\n", result.at("steps").get<int64_t>(),
        result.at("seconds").get<double>(), result.at("torch").get<std::string>());
  for (const ordered_json& assumption : result.at("assumptions")) {
    print("  assumed: {} ({} times)\n", assumption.at("what").get<std::string>(),
          assumption.at("times").get<int64_t>());
  }
}

// The script's allocations, against what the card has left.
inline report::Page page_of(const Findings& found, const ScriptOptions& options, const explain::Input& input) {
  const std::string title = fmt::format("{}", fmt::join(options.command, " "));
  report::Page page = report::explanation_page(explain::explain(input, title), input);
  page.verb = "estimate";
  page.title = title;
  page.verdict = {found.fits ? "good" : "bad",
                  found.fits ? "fits" : "does not fit",
                  fmt::format("On {}, which has {} left beside the context", found.card.title,
                              format_bytes(found.card.left_bytes())),
                  {"estimated on a simulated card"}};
  page.limit = report::PageFigure{found.card.name, found.card.left_bytes(), "without the context"};
  page.figures = {{"peak allocated", found.result.at("peak_allocated_bytes").get<int64_t>(), "tensors and workspaces"},
                  {"peak reserved", found.result.at("peak_reserved_bytes").get<int64_t>(), "PyTorch's allocator"},
                  {"the card", found.card.memory_bytes},
                  {"context", found.card.context_bytes, "CUDA and its libraries"}};
  for (const Remedy& remedy : found.remedies) page.figures.push_back({remedy.what, remedy.reserved_bytes, remedy.how});
  page.explanation.reset();
  return page;
}

inline void write_files(const Findings& found, const ScriptOptions& options, const trace::Trace& trace) {
  if (!options.page.wants_any()) return;
  explain::Input input;
  input.kind = explain::InputKind::trace;
  input.snapshot = explain::snapshot_of(trace, "script");
  if (!options.page.chrome_trace.empty()) {
    write_file(options.page.chrome_trace, report::chrome_trace(input.snapshot));
  }
  write_page(options.page, [&] { return page_of(found, options, input); });
}

}  // namespace script

inline int estimate_script(const ScriptOptions& options) {
  require_page(options.page);
  const script::RunFolder folder;
  script::Findings found;
  found.card = script::find_card(options.gpu);
  const ChildResult child = run_child({.command = options.command,
                                       .environment = script::environment_of(options, found.card, folder),
                                       .stdout_to_stderr = true});
  const std::filesystem::path result = script::largest_result(folder);
  if (result.empty() || child.status != 0) {
    throw UnsupportedError(child.status != 0
                               ? fmt::format("the command ended with status {} on the simulated card", child.status)
                               : "the command used no CUDA memory of PyTorch: nothing to estimate");
  }
  found.result = script::read_json(result);
  std::filesystem::path trace_file = result;
  const trace::Trace trace = trace::read(trace_file.replace_extension(".csv.gz").string());
  found.fits = script::fits_on(trace, found.card);
  found.remedies = script::replay_remedies(trace);
  for (const script::Card& card : script::all_cards()) {
    if (script::fits_on(trace, card)) found.cards_that_fit.push_back(card.name);
  }
  script::write_files(found, options, trace);
  if (options.json) {
    fmt::print("{}\n", script::to_json(found).dump(2));
  } else {
    script::print_text(found, options);
  }
  return found.fits ? kDone : kFinding;
}

}  // namespace plimsoll::cli
