#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/verbs.h"

namespace plimsoll::cli {

void add_models(CLI::App& app, int& /*status*/) {
  CLI::App* verb = app.add_subcommand("models", "List the built-in models");
  verb->footer("Example: plimsoll models --json");
  const auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "Print JSON");
  verb->callback([json] {
    if (*json) {
      fmt::print("{}\n", nlohmann::json{{"models", nlohmann::json::array()}}.dump(2));
    } else {
      fmt::print("no built-in models yet\n");
    }
  });
}

}  // namespace plimsoll::cli
