#include "plimsoll/explain/line_form.h"

#include <algorithm>
#include <initializer_list>

#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

bool matches(const LineForm& form, std::string_view line) {
  const auto is_in = [&](std::string_view text) { return text.empty() || contains(line, text); };
  const auto is_there = [&](std::string_view text) { return !text.empty() && contains(line, text); };
  return std::all_of(form.all.begin(), form.all.end(), is_in) &&
         std::none_of(form.none.begin(), form.none.end(), is_there);
}

// The text of a figure; empty when the line does not have it.
std::string_view figure_text(const Figure& figure, std::string_view line) {
  if (figure.front.empty()) {
    const size_t end = line.find(figure.behind);
    return end == std::string_view::npos ? std::string_view{} : size_text_before(line.substr(0, end));
  }
  const auto rest = after(line, figure.front);
  if (!rest || (!figure.behind.empty() && !contains(rest->substr(0, 60), figure.behind))) return {};
  return *rest;
}

bool read_figures(const LineForm& form, std::string_view line, Failure& failure) {
  bool found = false;
  for (const Figure& figure : form.figures) {
    if (figure.field == nullptr || (failure.*figure.field).has_value()) continue;
    const std::string_view text = figure_text(figure, line);
    if (text.empty()) continue;
    failure.*figure.field = leading_size(text, figure.binary ? Units::binary : Units::as_written);
    if (figure.field == &Failure::requested_bytes && is_beyond_any_memory(text)) failure.garbage_size = true;
    found = true;
  }
  return found;
}

std::string subject_of(const LineForm& form, std::string_view line) {
  if (form.subject_behind.empty()) return std::string(form.subject_front);
  return std::string(trim(between(line, form.subject_front, form.subject_behind).value_or("").substr(0, 80)));
}

Failure make(const LineForm& form, std::string_view line) {
  Failure failure;
  failure.framework = form.framework;
  failure.backend = form.backend;
  failure.arena = form.arena;
  failure.task = form.task;
  failure.says = form.says;
  failure.sure = form.sure;
  failure.headline = form.headline;
  failure.form = &form;
  failure.raised = !form.warns;
  failure.subject = subject_of(form, line);
  read_figures(form, line, failure);
  return failure;
}

std::optional<Failure> find(std::initializer_list<std::span<const LineForm>> tables, std::string_view line) {
  for (const auto table : tables) {
    const auto form = std::find_if(table.begin(), table.end(), [&](const LineForm& row) { return matches(row, line); });
    if (form != table.end()) return make(*form, line);
  }
  return std::nullopt;
}

std::optional<Failure> start(std::string_view line) {
  return find({engine_forms(), array_forms(), cluster_forms(), scheduler_forms(), torch_forms()}, line);
}

std::optional<Failure> start_generic(std::string_view line) { return find({generic_forms()}, line); }

bool add(std::string_view line, Failure& failure) {
  return failure.form != nullptr && read_figures(*failure.form, line, failure);
}

}  // namespace

const MessageForm kTableForm = {start, add};
const MessageForm kGenericForm = {start_generic, add};

}  // namespace plimsoll::explain
