#include "cli/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>
#include <type_traits>
#include <vector>

#include "cli/console.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/similar.h"
#include "plimsoll/report/completion.h"

namespace plimsoll::cli {
namespace {

bool has_words_after_dashes = false;

template <class N>
bool is_number(const std::string& text) {
  N value = 0;
  const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return false;
  if constexpr (std::is_floating_point_v<N>) return std::isfinite(value);
  return true;
}

// What no option of this type takes. An empty text would do nothing in silence, and NaN passes every comparison.
template <class T>
std::string find_nonsense(const std::string& text) {
  if (text.empty()) return "expected a value, found none";
  const auto expected = [&](const char* what) { return fmt::format("expected {}, found {}", what, quote(text)); };
  if constexpr (std::is_same_v<T, double>) {
    if (!is_number<double>(text)) return expected("a finite number");
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    if (!is_number<uint64_t>(text)) return expected("a whole number, not negative");
  } else if constexpr (std::is_same_v<T, int> || std::is_same_v<T, int64_t> ||
                       std::is_same_v<T, std::optional<int64_t>>) {
    using N = std::conditional_t<std::is_same_v<T, int>, int, int64_t>;
    if (!is_number<N>(text)) return expected(fmt::format("a whole number below 2^{}", 8 * sizeof(N) - 1).c_str());
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
    if (text == "--") break;  // what follows is another program's
    if (text.size() > 1 && text[0] == '-') return text.substr(0, text.find('='));
  }
  return std::nullopt;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
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

// "--budget=": the parser would take the next argument for its value.
std::string find_empty_value(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view text = argv[i];
    if (text == "--") break;
    if (text.starts_with("--") && text.ends_with("=") && text.find('=') + 1 == text.size()) {
      return fmt::format("{}: expected a value, found none", text.substr(0, text.size() - 1));
    }
  }
  return {};
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

std::string placeholder(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return {};
  return option.get_lnames().empty() ? std::string("VALUE") : upper(option.get_lnames().front());
}

report::OptionInfo describe(const CLI::Option& option) {
  report::OptionInfo info{.names = {}, .value = placeholder(option), .help = option.get_description()};
  for (const std::string& name : option.get_snames()) info.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) info.names.push_back("--" + name);
  if (info.names.empty()) info.value = option.get_name();
  return info;
}

report::VerbInfo describe(const CLI::App& verb) {
  report::VerbInfo info{verb.get_name(), verb.get_description(), verb.get_footer(), {}};
  for (const CLI::Option* option : verb.get_options()) info.options.push_back(describe(*option));
  return info;
}

// What is asked of the program itself: texts about its verbs, made from their definitions.
std::optional<std::string> generated_text(const CLI::App& app, int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  const bool asks = !words.empty() && (words[0] == "--completion" || words[0] == "--man");
  if (!asks) return std::nullopt;
  std::vector<report::VerbInfo> verbs;
  for (const CLI::App* verb : app.get_subcommands(std::function<bool(const CLI::App*)>())) {
    verbs.push_back(describe(*verb));
  }
  if (words[0] == "--man") return report::man_page(verbs, PLIMSOLL_VERSION);
  return report::completion_script(words.size() > 1 ? words[1] : "", verbs);
}

}  // namespace

Option Option::required(bool is) const { return Option(option_->required(is)); }
Option Option::shows_default() const { return Option(option_->capture_default_str()); }
Option Option::expects(int least, int most) const { return Option(option_->expected(least, most)); }
Option Option::repeats() const { return Option(option_->allow_extra_args(false)); }

Option Option::in_range(double least, double most) const {
  return check([=](const std::string& text) {
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value >= least && value <= most ? "" : fmt::format("expected {} to {}, found {}", least, most, text);
  });
}

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

Option Command::add_words(const std::string& name, std::vector<std::string>& value, const std::string& help) const {
  return Option(app_->add_option(name, value, help));
}

Option Command::add_flag(const std::string& name, bool& value, const std::string& help) const {
  return Option(app_->add_flag(name, value, help));
}

Option Command::add_off_flag(const std::string& name, bool& value, const std::string& help) const {
  return Option(app_->add_flag_callback(
      name, [&value] { value = false; }, help));
}

Option Command::option(const std::string& name) const { return Option(app_->get_option(name)); }

void Command::callback(const std::function<void()>& run) const { app_->callback(run); }

bool has_other_command() { return has_words_after_dashes; }

std::string run_command_line(int argc, char** argv, const std::function<void(const Command&)>& add_verbs) {
  CLI::App app("Plimsoll runs deep learning inside a memory budget: predict, plan, run, explain.", "plimsoll");
  app.set_version_flag("--version", PLIMSOLL_VERSION);
  app.require_subcommand(1);
  app.footer("plimsoll --completion bash|zsh|fish prints a completion script, --man the manual page.");
  app.get_formatter()->column_width(34);
  has_words_after_dashes = std::find(argv, argv + argc, std::string_view("--")) < argv + argc - 1;
  add_verbs(Command(app));
  if (std::string wrong = find_empty_value(argc, argv); !wrong.empty()) return wrong;
  if (const auto text = generated_text(app, argc, argv)) {
    fmt::print("{}", *text);
    return {};
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return what_is_wrong(app, error, argc, argv);
    std::ostringstream help;
    app.exit(error, help, help);
    print("{}", help.str());
  }
  return {};
}

}  // namespace plimsoll::cli
