// Texts about the command line, made from the definitions of its verbs: completion for shells, and a manual page.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::report {

struct OptionInfo {
  std::vector<std::string> names;  // "-o", "--output"; none for one that is given by its place
  std::string value;               // what it takes; empty: it is a flag
  std::string help;
};

struct VerbInfo {
  std::string name;
  std::string help;
  std::string footer;  // examples
  std::vector<OptionInfo> options;
};

// For bash, zsh or fish. ArgumentError for another one.
std::string completion_script(std::string_view shell, std::span<const VerbInfo> verbs);

// In roff.
std::string man_page(std::span<const VerbInfo> verbs, std::string_view version);

}  // namespace plimsoll::report
