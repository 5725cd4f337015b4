#include "cli/command.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <vector>

namespace plimsoll::cli {

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
  return Option(app_->add_option(name, value, help));
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

bool run_command_line(int argc, char** argv, const std::function<void(const Command&)>& add_verbs) {
  CLI::App app("Plimsoll runs deep learning inside a memory budget: predict, plan, run, explain.", "plimsoll");
  app.set_version_flag("--version", PLIMSOLL_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  add_verbs(Command(app));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0;
  }
  return true;
}

}  // namespace plimsoll::cli
