#include "cli/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <type_traits>
#include <vector>

#include "plimsoll/base/error.h"
#include "plimsoll/base/similar.h"

namespace plimsoll::cli {
namespace {

// What no option takes: an empty text would do nothing in silence, and NaN passes every comparison.
template <class T>
std::string find_nonsense(const std::string& text) {
  if (text.empty()) return "it is empty";
  if constexpr (std::is_same_v<T, double>) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range || !std::isfinite(value)) {
      return fmt::format("it is {}, expected a finite number", text);
    }
  }
  return {};
}

std::vector<std::string> option_names(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// The first option that the verb does not have.
std::optional<std::string> find_unknown_option(const CLI::App& verb) {
  for (const std::string& text : verb.remaining()) {
    if (text.size() > 1 && text[0] == '-') return text.substr(0, text.find('='));
  }
  return std::nullopt;
}

std::string wrong_verb(const CLI::App& app, int argc, char** argv) {
  const auto is_verb = [](const char* text) { return text[0] != '-'; };
  char** const found = std::find_if(argv + 1, argv + argc, is_verb);
  if (found == argv + argc) return "a verb is missing; `plimsoll --help` lists them";
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands(std::function<bool(const CLI::App*)>()))
    names.push_back(verb->get_name());
  return fmt::format("there is no verb {}; {}`plimsoll --help` lists all", quote(*found), similar_hint(*found, names));
}

std::string what_is_wrong(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  if (given.empty()) {
    if (const auto unknown = find_unknown_option(app)) {
      return fmt::format("there is no option {}; `plimsoll --help` lists all", quote(*unknown));
    }
    return wrong_verb(app, argc, argv);
  }
  const CLI::App& verb = *given.front();
  const std::string help = fmt::format("`plimsoll {} --help` lists all", verb.get_name());
  if (const auto unknown = find_unknown_option(verb)) {
    return fmt::format("{} has no option {}; {}{}", verb.get_name(), quote(*unknown),
                       similar_hint(*unknown, option_names(verb)), help);
  }
  return fmt::format("{}; {}", error.what(), help);
}

}  // namespace

Option Option::required(bool is) const { return Option(option_->required(is)); }
Option Option::shows_default() const { return Option(option_->capture_default_str()); }
Option Option::expects(int least, int most) const { return Option(option_->expected(least, most)); }
Option Option::repeats() const { return Option(option_->allow_extra_args(false)); }
Option Option::in_range(double least, double most) const { return Option(option_->check(CLI::Range(least, most))); }

Option Option::check(const std::function<std::string(const std::string&)>& check) const {
  return Option(option_->check(check));
}

Command Command::add_verb(const std::string& name, const std::string& help) const {
  return Command(*app_->add_subcommand(name, help));
}

void Command::footer(const std::string& text) const { app_->footer(text); }

template <class T>
Option Command::add_option(const std::string& name, T& value, const std::string& help) const {
  CLI::Option* option = app_->add_option(name, value, help);
  option->check(find_nonsense<T>);
  return Option(option);
}

template Option Command::add_option(const std::string&, std::string&, const std::string&) const;
template Option Command::add_option(const std::string&, int&, const std::string&) const;
template Option Command::add_option(const std::string&, int64_t&, const std::string&) const;
template Option Command::add_option(const std::string&, uint64_t&, const std::string&) const;
template Option Command::add_option(const std::string&, double&, const std::string&) const;
template Option Command::add_option(const std::string&, std::optional<int64_t>&, const std::string&) const;
template Option Command::add_option(const std::string&, std::vector<std::string>&, const std::string&) const;

Option Command::add_flag(const std::string& name, bool& value, const std::string& help) const {
  return Option(app_->add_flag(name, value, help));
}

Option Command::option(const std::string& name) const { return Option(app_->get_option(name)); }

void Command::callback(const std::function<void()>& run) const { app_->callback(run); }

std::string run_command_line(int argc, char** argv, const std::function<void(const Command&)>& add_verbs) {
  CLI::App app("Plimsoll runs deep learning inside a memory budget: predict, plan, run, explain.", "plimsoll");
  app.set_version_flag("--version", PLIMSOLL_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  add_verbs(Command(app));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return what_is_wrong(app, error, argc, argv);
    app.exit(error);
  }
  return {};
}

}  // namespace plimsoll::cli
