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
#include "cli/verbs.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/oom.h"
#include "plimsoll/memory/replay/policies.h"
#include "plimsoll/trace/file.h"

namespace plimsoll::cli {

struct ScriptOptions {
  std::vector<std::string> command;
  std::string gpu = "h200";
  int64_t steps = 0;  // 0: until steps repeat
  bool json = false;
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

struct Replayed {
  std::optional<int64_t> reserved_bytes;  // none: it ran out of memory
};

inline Replayed replayed(const trace::Trace& trace, const char* policy, int64_t capacity) {
  replay::Device device;
  if (capacity > 0) device.capacity = {capacity, "the card"};
  try {
    return {replay::replay(trace, *replay::make_policy(policy, device)).policy.reserved_peak_bytes};
  } catch (const ResourceExhausted&) {
    return {};
  }
}

struct Findings {
  Card card;
  ordered_json result;  // what the script's process wrote
  bool fits = false;
  int64_t pool_bytes = 0;
  std::vector<std::string> cards_that_fit;
};

inline bool fits_on(const trace::Trace& trace, const Card& card) {
  return card.left_bytes() > 0 && replayed(trace, "torch", card.left_bytes()).reserved_bytes.has_value();
}

inline ordered_json to_json(const Findings& found) {
  ordered_json json = {{"gpu", found.card.name},
                       {"fits", found.fits},
                       {"memory_bytes", found.card.memory_bytes},
                       {"context_bytes", found.card.context_bytes}};
  json.update(found.result);
  json["pool_reserved_bytes"] = found.pool_bytes;
  json["fits_on"] = found.cards_that_fit;
  return json;
}

inline void print_bytes(std::string_view what, int64_t bytes, std::string_view note) {
  print("  {:<16} {:>11}  {:>17} bytes  {}\n", what, format_bytes(bytes), format_count(bytes), note);
}

inline void print_text(const Findings& found, const ScriptOptions& options) {
  const ordered_json& result = found.result;
  cli::print("{} on {} ({}): {}\n", fmt::join(options.command, " "), found.card.title,
             format_bytes(found.card.memory_bytes), found.fits ? "fits" : "DOES NOT FIT");
  print_bytes("peak allocated", result.at("peak_allocated_bytes"), "tensors and workspaces");
  print_bytes("peak reserved", result.at("peak_reserved_bytes"), "by PyTorch's caching allocator");
  print_bytes("with our pool", found.pool_bytes, "plimsoll exec --pool");
  print_bytes("context", found.card.context_bytes, "CUDA, cuBLAS, cuDNN: " + found.card.context_source);
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

}  // namespace script

inline int estimate_script(const ScriptOptions& options) {
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
  found.pool_bytes = script::replayed(trace, "pool", 0).reserved_bytes.value_or(0);
  for (const script::Card& card : script::all_cards()) {
    if (script::fits_on(trace, card)) found.cards_that_fit.push_back(card.name);
  }
  if (options.json) {
    fmt::print("{}\n", script::to_json(found).dump(2));
  } else {
    script::print_text(found, options);
  }
  return found.fits ? kDone : kFinding;
}

}  // namespace plimsoll::cli
