// The command line as verbs see it: options, flags, help. One file knows the library behind it, which takes longer to
// compile than all verbs together.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace plimsoll::cli {

class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required(bool is = true) const;
  Option shows_default() const;               // in the help
  Option expects(int least, int most) const;  // values
  Option repeats() const;                     // one value each time it is given
  Option in_range(double least, double most) const;
  // The check throws, or returns what is wrong with the text.
  Option check(const std::function<std::string(const std::string&)>& check) const;

 private:
  CLI::Option* option_;
};

// The program, or one of its verbs.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}

  Command add_verb(const std::string& name, const std::string& help) const;
  void footer(const std::string& text) const;  // of the help: an example

  // `name` is "--capacity", "-o,--output", or "FILE" for one that is given by its place. T is std::string, int,
  // int64_t, uint64_t, double, std::optional<int64_t> or std::vector<std::string>; `value` outlives the command. Texts
  // that are empty and numbers that are not finite are refused.
  template <class T>
  Option add_option(const std::string& name, T& value, const std::string& help) const;
  // The words of another program's command line, after --: any text, empty ones too.
  Option add_words(const std::string& name, std::vector<std::string>& value, const std::string& help) const;
  Option add_flag(const std::string& name, bool& value, const std::string& help) const;
  Option add_off_flag(const std::string& name, bool& value, const std::string& help) const;  // makes it false
  Option option(const std::string& name) const;                                              // that was added

  void callback(const std::function<void()>& run) const;

 private:
  CLI::App* app_;
};

// Parses the arguments and runs the verb that they name. Help and versions are printed. What is wrong with the
// arguments; empty: nothing.
std::string run_command_line(int argc, char** argv, const std::function<void(const Command&)>& add_verbs);
bool has_other_command();  // whether words follow --

}  // namespace plimsoll::cli
