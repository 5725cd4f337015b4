#include "plimsoll/report/watch_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/duration.h"
#include "plimsoll/report/plot.h"

namespace plimsoll::report {
namespace {

constexpr int kGraphRows = 4;
constexpr double kSoon = 600;  // seconds: within them a warning is worth a line

double share_of(int64_t used, int64_t limit) {
  return limit <= 0 ? 0 : std::clamp(static_cast<double>(used) / static_cast<double>(limit), 0.0, 1.0);
}

// "████████░░░░  66 %", in yellow from 80 % on and in red from 95 %.
std::string bar(int64_t used, int64_t limit, int width, bool colour) {
  const double share = share_of(used, limit);
  const int full = static_cast<int>(share * width + 0.5);
  std::string text;
  for (int i = 0; i < width; ++i) text += i < full ? "█" : "░";
  if (colour && share >= 0.8) text = fmt::format("\x1b[{}m{}\x1b[0m", share >= 0.95 ? 31 : 33, text);
  return fmt::format("{} {:>3.0f} %", text, 100 * share);
}

std::string row(const std::string& name, int64_t used, int64_t limit, int columns, bool colour) {
  const std::string of = fmt::format("{} of {}", format_bytes(used), format_bytes(limit));
  return fmt::format("  {:<6}{:<26} {}", name, of, bar(used, limit, std::clamp(columns - 42, 10, 60), colour));
}

std::string cut(std::string text, size_t columns) {
  if (text.size() > columns) text = text.substr(0, columns - 3) + "...";
  return text;
}

std::string tree_text(const TreeMemory& tree) {
  const std::string pss = tree.pss_bytes > 0 ? fmt::format("PSS {}  ", format_bytes(tree.pss_bytes)) : "";
  const std::string shared = tree.shared_bytes > 0 ? fmt::format("  shared {}", format_bytes(tree.shared_bytes)) : "";
  const std::string swapped =
      tree.swapped_bytes > 0 ? fmt::format("  swapped {}", format_bytes(tree.swapped_bytes)) : "";
  return fmt::format("{}RSS {}{}{}", pss, format_bytes(tree.rss_bytes), shared, swapped);
}

bool is_near(const WatchReading& reading) { return reading.seconds_left && *reading.seconds_left < kSoon; }

std::string warning_text(const WatchReading& reading) {
  return fmt::format("full in {} (+{}/s)", format_seconds(*reading.seconds_left),
                     format_bytes(static_cast<int64_t>(reading.bytes_per_second)));
}

void add_cards(const WatchReading& reading, int columns, bool colour, std::vector<std::string>& lines) {
  for (size_t i = 0; i < reading.cards.size(); ++i) {
    const cuda::CardMemory& card = reading.cards[i];
    lines.push_back(row(fmt::format("GPU {}", i), card.used_bytes, card.total_bytes, columns, colour));
    std::string more = fmt::format("        {}", card.name);
    if (card.utilisation_percent >= 0) more += fmt::format(", busy {} %", card.utilisation_percent);
    for (const cuda::CardProcess& process : card.processes) {
      more += fmt::format(", {}: {}", process.pid, process.used_bytes < 0 ? "?" : format_bytes(process.used_bytes));
    }
    lines.push_back(cut(more, static_cast<size_t>(columns)));
  }
}

}  // namespace

std::vector<std::string> watch_view(const WatchReading& reading, const std::vector<int64_t>& history, int columns,
                                    bool colour) {
  std::vector<std::string> lines;
  std::string head = cut(reading.subject, 40);
  if (reading.tree.processes > 1) head += fmt::format(", {} processes", reading.tree.processes);
  lines.push_back(fmt::format("{}, {}", head, format_seconds(reading.seconds)));
  if (reading.tree.processes > 0) lines.push_back("  " + tree_text(reading.tree));
  lines.push_back(row("limit", reading.limit.used_bytes, reading.limit.limit_bytes, columns, colour));
  lines.push_back(
      cut(fmt::format("        {}, page cache {}", reading.limit.source, format_bytes(reading.limit.page_cache_bytes)),
          static_cast<size_t>(columns)));
  add_cards(reading, columns, colour, lines);
  if (history.size() > 2) {
    for (const std::string& line : plot(history, columns - 4, kGraphRows)) lines.push_back("  " + line);
  }
  if (is_near(reading)) {
    const std::string text = fmt::format("  warning: {} if it goes on like this", warning_text(reading));
    lines.push_back(colour ? fmt::format("\x1b[31m{}\x1b[0m", text) : text);
  }
  return lines;
}

std::string watch_line(const WatchReading& reading) {
  std::string line = fmt::format("{:.1f} s  ", reading.seconds);
  if (reading.tree.processes > 0) line += tree_text(reading.tree) + "  ";
  line += fmt::format("{} of {}", format_bytes(reading.limit.used_bytes), format_bytes(reading.limit.limit_bytes));
  for (size_t i = 0; i < reading.cards.size(); ++i) {
    line += fmt::format("  GPU {} {} of {}", i, format_bytes(reading.cards[i].used_bytes),
                        format_bytes(reading.cards[i].total_bytes));
  }
  if (is_near(reading)) line += "  " + warning_text(reading);
  return line;
}

nlohmann::ordered_json watch_json(const WatchReading& reading) {
  nlohmann::ordered_json json = {{"seconds", reading.seconds},
                                 {"subject", reading.subject},
                                 {"processes", reading.tree.processes},
                                 {"rss_bytes", reading.tree.rss_bytes},
                                 {"pss_bytes", reading.tree.pss_bytes},
                                 {"shared_bytes", reading.tree.shared_bytes},
                                 {"swapped_bytes", reading.tree.swapped_bytes},
                                 {"page_cache_bytes", reading.limit.page_cache_bytes},
                                 {"used_bytes", reading.limit.used_bytes},
                                 {"limit_bytes", reading.limit.limit_bytes},
                                 {"limit_source", reading.limit.source},
                                 {"growth_bytes", static_cast<int64_t>(reading.bytes_per_second)}};
  json["seconds_left"] = reading.seconds_left ? nlohmann::ordered_json(*reading.seconds_left) : nullptr;
  json["gpus"] = nlohmann::ordered_json::array();
  for (const cuda::CardMemory& card : reading.cards) {
    nlohmann::ordered_json processes = nlohmann::ordered_json::array();
    for (const cuda::CardProcess& process : card.processes) {
      processes.push_back({{"pid", process.pid}, {"used_bytes", process.used_bytes}});
    }
    json["gpus"].push_back({{"name", card.name},
                            {"used_bytes", card.used_bytes},
                            {"total_bytes", card.total_bytes},
                            {"utilisation_percent", card.utilisation_percent},
                            {"processes", processes}});
  }
  return json;
}

}  // namespace plimsoll::report
