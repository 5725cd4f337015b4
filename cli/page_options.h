// --html, --open and --chrome-trace: what verbs write beside what they print.
#pragma once

#include <functional>
#include <string>

#include "cli/command.h"
#include "plimsoll/report/page.h"

namespace plimsoll::cli {

struct PageOptions {
  std::string html;
  std::string chrome_trace;
  bool open = false;

  bool wants_page() const { return !html.empty() || open; }
  bool wants_any() const { return wants_page() || !chrome_trace.empty(); }
};

void add_page_options(const Command& verb, PageOptions& options);

// Before long work whose page could not be written.
void require_page(const PageOptions& options);

void write_page(const PageOptions& options, const std::function<report::Page()>& make);

}  // namespace plimsoll::cli
