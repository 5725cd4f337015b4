// The same failures in other dress: with the prefixes of loggers, launchers and containers, quoted, escaped, wrapped. A
// failure keeps its cause, and a log without one stays without.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <iostream>

#include "tests/explain/thread_cases.h"
#include "tests/memory/sanitized.h"

namespace plimsoll::explain {
namespace {

using Dress = std::function<std::string(const std::string&)>;

std::vector<std::string> lines_of(const std::string& log) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < log.size();) {
    const size_t end = std::min(log.find('\n', at), log.size());
    lines.push_back(log.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string each_line(const std::string& log, const std::function<std::string(const std::string&)>& change) {
  std::string result;
  for (const std::string& line : lines_of(log)) result += change(line) + "\n";
  return result;
}

Dress prefix(std::string text) {
  return [text](const std::string& log) { return each_line(log, [&](const auto& line) { return text + line; }); };
}

Dress around(std::string front, std::string back) {
  return [front, back](const std::string& log) {
    return each_line(log, [&](const auto& line) { return front + line + back; });
  };
}

std::string replace_all(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

std::string escape(const std::string& text) {
  std::string result = replace_all(text, "\\", "\\\\");
  result = replace_all(result, "\"", "\\\"");
  result = replace_all(result, "\t", "\\t");
  return replace_all(result, "\n", "\\n");
}

std::string html(const std::string& log) {
  std::string result = replace_all(log, "&", "&amp;");
  result = replace_all(result, "<", "&lt;");
  result = replace_all(result, ">", "&gt;");
  result = replace_all(result, "\"", "&quot;");
  return replace_all(result, "'", "&#39;");
}

std::string one_json_line(const std::string& log) {
  return "{\"level\":\"error\",\"time\":\"2025-02-03T10:11:12Z\",\"msg\":\"" + escape(log) + "\"}\n";
}

std::string python_bytes(const std::string& log) { return "b'" + replace_all(escape(log), "\\\"", "\"") + "'\n"; }

std::string docker_file(const std::string& log) {
  return each_line(log, [](const std::string& line) {
    return "{\"log\":\"" + escape(line) + "\\n\",\"stream\":\"stderr\",\"time\":\"2025-02-03T10:11:12.123456789Z\"}";
  });
}

std::string crlf(const std::string& log) { return replace_all(log, "\n", "\r\n"); }

// As a terminal wraps: within words.
Dress wrapped(size_t width) {
  return [width](const std::string& log) {
    return each_line(log, [&](std::string line) {
      for (size_t at = width; at < line.size(); at += width + 1) line.insert(at, "\n");
      return line;
    });
  };
}

// As an editor wraps: between words.
Dress folded(size_t width) {
  return [width](const std::string& log) {
    return each_line(log, [&](std::string line) {
      for (size_t begin = 0; line.size() - begin > width;) {
        const size_t blank = line.rfind(' ', begin + width);
        if (blank == std::string::npos || blank <= begin) break;
        line[blank] = '\n';
        begin = blank + 1;
      }
      return line;
    });
  };
}

struct Named {
  const char* name;
  Dress dress;
  bool changes_traps = false;  // it calls them errors, or cuts off that they are none
  int least_percent = 98;      // of the failures that keep their cause
};

const std::vector<Named>& dresses() {
  static const std::vector<Named> kDresses = {
      {"github actions", prefix("2025-02-03T10:11:12.1234567Z ")},
      {"container runtime", prefix("2025-02-03T10:11:12.123456789Z stderr F ")},
      {"journal", prefix("Feb 03 10:11:12 node7 python3[812]: ")},
      {"quoted mail", prefix("> ")},
      {"quoted twice", prefix(">> > ")},
      {"python logging", prefix("2025-02-03 10:11:12,123 - app.worker - ERROR - "), true},
      {"loguru", prefix("2025-02-03 10:11:12.123 | ERROR    | app.main:run:42 - "), true},
      {"compose", prefix("trainer-1  | ")},
      {"ray", prefix("(Trainer pid=812, ip=10.0.0.1) ")},
      {"mpi", prefix("[1,0]<stderr>:")},
      {"pdsh", prefix("gpu-node-3: ")},
      {"torchrun", prefix("[rank3]:[E203 10:11:12.123456789 Worker.cpp:42] "), true},
      {"pytest", prefix("E       ")},
      {"code", around("`", "`")},
      {"told", prefix("When it starts I get this error: "), true, 94},
      {"indented", prefix("        ")},
      {"bars", around("\xe2\x94\x82 ", "          \xe2\x94\x82")},
      {"numbered", prefix("  142\t")},
      {"coloured", around("\x1b[31m", "\x1b[0m")},
      {"html", html},
      {"one json line", one_json_line, true},
      {"json in json", [](const std::string& log) { return one_json_line(one_json_line(log)); }, true},
      {"python bytes", python_bytes},
      {"docker file", docker_file},
      {"crlf", crlf},
      {"wrapped at 80", wrapped(80), true, 92},
      {"wrapped at 120", wrapped(120), true, 95},
      {"folded at 72", folded(72), true, 90},
      {"folded at 100", folded(100), true, 94},
  };
  return kDresses;
}

std::string cause_of(const std::string& log) {
  const auto diagnoses = explain_text(log).diagnoses;
  return diagnoses.empty() ? "nothing" : std::string(name(diagnoses[0].cause));
}

bool says_nothing(const std::string& cause) { return cause == "nothing" || cause == "healthy"; }

TEST(Dress, ChangesNoCause) {
  const bool prints = std::getenv("PLIMSOLL_THREADS") != nullptr;
  std::vector<int> kept(dresses().size());
  std::vector<std::string> changes(dresses().size());
  int failures = 0;
  int cases = 0;
  for (const std::string& set : thread_sets()) {
    for (const ThreadCase& item : read_thread_set(set)) {
      if (kSanitized && cases++ % 8 != 0) continue;  // memory is looked at there; the shares are of all cases
      const std::string plain = cause_of(item.log);
      const bool trap = says_nothing(plain);
      failures += trap ? 0 : 1;
      for (size_t i = 0; i < dresses().size(); ++i) {
        const std::string dressed = cause_of(dresses()[i].dress(item.log));
        const bool same = trap ? says_nothing(dressed) : dressed == plain;
        if (same && !trap) ++kept[i];
        if (same) continue;
        changes[i] += fmt::format("  {}/{}: {} for {}\n", set, item.name, dressed, plain);
        if (trap && !dresses()[i].changes_traps)
          ADD_FAILURE() << dresses()[i].name << ": " << set << "/" << item.name << ": " << dressed;
      }
    }
  }
  for (size_t i = 0; i < dresses().size(); ++i) {
    const std::string text = fmt::format("{}: {} of {} kept\n{}", dresses()[i].name, kept[i], failures, changes[i]);
    if (!kSanitized) {
      EXPECT_GE(kept[i] * 100, failures * dresses()[i].least_percent) << text;
    }
    if (prints) std::cout << text;
  }
}

}  // namespace
}  // namespace plimsoll::explain
