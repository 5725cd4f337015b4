// The verbs of `plimsoll`, one file each. A verb adds its subcommand with flags, help and an example; its callback
// does the work and prints to stdout. Expected errors are thrown and become a message and a status in main.cc:
// 0 done, 1 does not fit or a finding, 2 bad arguments or input.
#pragma once

#include <CLI/CLI.hpp>

namespace plimsoll::cli {

inline constexpr int kDone = 0;
inline constexpr int kFinding = 1;
inline constexpr int kBadInput = 2;

// `status` is what the process exits with; a callback sets it when that is not kDone.
using AddVerb = void (*)(CLI::App& app, int& status);

void add_models(CLI::App& app, int& status);
void add_replay(CLI::App& app, int& status);
void add_tensor(CLI::App& app, int& status);

}  // namespace plimsoll::cli
