// The failures and traps of tests/data/oom/threads; its README has the format.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/explain/explain.h"
#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {

struct ThreadCase {
  std::string family;
  std::string name;
  std::string cause;  // "none" for a trap
  std::string framework;
  std::string remedy;
  std::string log;
};

inline const std::vector<std::string>& thread_sets() {
  static const std::vector<std::string> kSets = {"develop",   "held_out",    "independent", "fourth",     "fifth",
                                                 "sixth",     "seventh",     "eighth",      "ninth",      "tenth",
                                                 "eleventh",  "twelfth",     "thirteenth",  "fourteenth", "fifteenth",
                                                 "sixteenth", "seventeenth", "eighteenth",  "nineteenth"};
  return kSets;
}

inline std::vector<std::string> fields_of_header(std::string_view header) {
  std::vector<std::string> fields;
  while (true) {
    const size_t bar = header.find(" | ");
    fields.emplace_back(trim(header.substr(0, bar)));
    if (bar == std::string_view::npos) break;
    header.remove_prefix(bar + 3);
  }
  fields.resize(4);
  return fields;
}

inline void read_family(const std::filesystem::path& path, std::vector<ThreadCase>& cases) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("=== ") && contains(line, " | ")) {
      const auto fields = fields_of_header(std::string_view(line).substr(4));
      cases.push_back({path.stem(), fields[0], fields[1], fields[2], fields[3], ""});
    } else if (!cases.empty()) {
      cases.back().log += line + "\n";
    }
  }
}

inline std::vector<ThreadCase> read_thread_set(const std::string& set) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(PLIMSOLL_SOURCE_DIR "/tests/data/oom/threads/" + set)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<ThreadCase> cases;
  for (const auto& path : paths) read_family(path, cases);
  return cases;
}

inline Explanation explain_text(const std::string& log) {
  Input input;
  input.log = read_log(*open_memory(log, "log"));
  return explain(input, "log");
}

}  // namespace plimsoll::explain
