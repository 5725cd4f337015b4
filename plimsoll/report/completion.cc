#include "plimsoll/report/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plimsoll/base/error.h"

namespace plimsoll::report {
namespace {

std::string names_of(const VerbInfo& verb) {
  std::string names;
  for (const OptionInfo& option : verb.options) {
    for (const std::string& name : option.names) names += fmt::format("{}{}", names.empty() ? "" : " ", name);
  }
  return names;
}

std::string names_of(std::span<const VerbInfo> verbs) {
  std::string names;
  for (const VerbInfo& verb : verbs) names += fmt::format("{}{}", names.empty() ? "" : " ", verb.name);
  return names;
}

// In single quotes; a quote within ends them, stands escaped, and opens them again.
std::string in_quotes(std::string_view text, std::string_view also_escaped = "") {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (also_escaped.find(c) != also_escaped.npos) out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "'";
}

// Options that a verb's own word takes names of built-in models for.
constexpr std::string_view kModelsOf =
    "$(plimsoll models --json 2>/dev/null | sed -n 's/^ *\"name\": \"\\(.*\\)\",*/\\1/p')";

std::string bash_script(std::span<const VerbInfo> verbs) {
  std::string cases;
  for (const VerbInfo& verb : verbs) cases += fmt::format("    {}) words='{}' ;;\n", verb.name, names_of(verb));
  return fmt::format(
      "# Completion of plimsoll for bash.\n"
      "_plimsoll() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} words=\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W '{} --help --version --completion --man' -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${{COMP_WORDS[1]}} in\n{}  esac\n"
      "  if [[ $word != -* && $COMP_CWORD -eq 2 ]]; then\n"
      "    case ${{COMP_WORDS[1]}} in estimate|plan|train|run) words=\"{}\" ;; esac\n"
      "  fi\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "}}\n"
      "complete -o default -F _plimsoll plimsoll\n",
      names_of(verbs), cases, kModelsOf);
}

std::string zsh_option(const OptionInfo& option, std::string_view name) {
  const std::string value = option.value.empty() ? "" : fmt::format(":{}:_files", option.value);
  return in_quotes(fmt::format("{}[{}]{}", name, option.help, value), "");
}

std::string zsh_script(std::span<const VerbInfo> verbs) {
  std::string list;
  std::string cases;
  for (const VerbInfo& verb : verbs) {
    list += fmt::format("    {}\n", in_quotes(verb.name + ":" + verb.help));
    std::string arguments;
    for (const OptionInfo& option : verb.options) {
      for (const std::string& name : option.names) arguments += " " + zsh_option(option, name);
    }
    cases += fmt::format("    {}) _arguments{} '*:file:_files' ;;\n", verb.name, arguments);
  }
  return fmt::format(
      "#compdef plimsoll\n"
      "# Completion of plimsoll for zsh.\n"
      "_plimsoll() {{\n"
      "  local -a verbs\n"
      "  verbs=(\n{}  )\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _describe verb verbs\n"
      "    return\n"
      "  fi\n"
      "  local verb=$words[2]\n"
      "  shift words; (( CURRENT-- ))\n"
      "  case $verb in\n{}  esac\n"
      "}}\n"
      "_plimsoll \"$@\"\n",
      list, cases);
}

std::string fish_option(const VerbInfo& verb, const OptionInfo& option) {
  std::string line = fmt::format("complete -c plimsoll -n '__fish_seen_subcommand_from {}'", verb.name);
  for (const std::string& name : option.names) {
    line += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2)) : fmt::format(" -s {}", name.substr(1));
  }
  if (!option.value.empty()) line += " -r";
  return line + fmt::format(" -d {}\n", in_quotes(option.help));
}

std::string fish_script(std::span<const VerbInfo> verbs) {
  std::string text = "# Completion of plimsoll for fish.\n";
  for (const VerbInfo& verb : verbs) {
    text += fmt::format("complete -c plimsoll -n __fish_use_subcommand -a {} -d {}\n", verb.name, in_quotes(verb.help));
  }
  for (const VerbInfo& verb : verbs) {
    for (const OptionInfo& option : verb.options) {
      if (!option.names.empty()) text += fish_option(verb, option);
    }
  }
  return text;
}

// Text in roff: no line begins with a control character, and hyphens and backslashes are meant.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool starts_line = out.empty() || out.back() == '\n';
    if (starts_line && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
      continue;
    }
    if (c == '-') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string completion_script(std::string_view shell, std::span<const VerbInfo> verbs) {
  if (shell == "bash") return bash_script(verbs);
  if (shell == "zsh") return zsh_script(verbs);
  if (shell == "fish") return fish_script(verbs);
  throw ArgumentError(fmt::format("--completion is {}, expected bash, zsh or fish", quote(shell)));
}

std::string man_page(std::span<const VerbInfo> verbs, std::string_view version) {
  std::string text = fmt::format(
      ".TH PLIMSOLL 1 \"\" \"plimsoll {}\" \"User Commands\"\n"
      ".SH NAME\nplimsoll \\- run deep learning inside a memory budget\n"
      ".SH SYNOPSIS\n.B plimsoll\n.I VERB\n[options]\n"
      ".SH DESCRIPTION\nPredicts the memory of training and inference steps, plans them to fit a budget, runs them "
      "within it, and explains why another framework ran out of memory.\n"
      "Every verb has \\-\\-help with an example and \\-\\-json.\n.SH VERBS\n",
      version);
  for (const VerbInfo& verb : verbs) {
    text += fmt::format(".SS {}\n{}\n", verb.name, roff(verb.help));
    for (const OptionInfo& option : verb.options) {
      text +=
          fmt::format(".TP\n.B {}{}{}\n{}\n", roff(fmt::format("{}", fmt::join(option.names, ", "))),
                      option.names.empty() || option.value.empty() ? "" : " ", roff(option.value), roff(option.help));
    }
    if (!verb.footer.empty()) text += fmt::format(".PP\n.nf\n{}\n.fi\n", roff(verb.footer));
  }
  return text +
         ".SH EXIT STATUS\n0 done, 1 does not fit or a finding, 2 bad arguments or input.\n"
         ".SH ENVIRONMENT\nNO_COLOR, TERM, COLUMNS and the locale are respected; PLIMSOLL_MAX_ISA limits the vector "
         "instructions that kernels use.\n";
}

}  // namespace plimsoll::report
