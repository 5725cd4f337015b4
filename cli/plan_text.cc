#include "cli/plan_text.h"

#include <fmt/format.h>

#include <string>

#include "cli/console.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/duration.h"

namespace plimsoll::cli {

std::function<void(const plan::Progress&)> planning_progress() {
  if (!shows_progress()) return nullptr;
  return [trying = std::string()](const plan::Progress& progress) mutable {
    if (!progress.trying.empty()) trying = progress.trying;
    show_progress(progress.predicted_s == 0
                      ? fmt::format("planning: {}", trying)
                      : fmt::format("planning: {}: {} in {} a step so far", trying, format_bytes(progress.live_bytes),
                                    format_seconds(progress.predicted_s)));
  };
}

}  // namespace plimsoll::cli
