#include "plimsoll/report/script_estimate.h"

#include <fmt/format.h>

#include <iterator>

#include "plimsoll/base/bytes.h"
#include "plimsoll/report/html_page.h"

namespace plimsoll::report {
namespace {

using explain::ReplayedWay;
using explain::ScriptEstimate;
using nlohmann::ordered_json;

std::string bytes_line(std::string_view what, int64_t bytes, std::string_view note) {
  return fmt::format("  {:<19} {:>11}  {:>17} bytes  {}\n", what, format_bytes(bytes), format_count(bytes), note);
}

}  // namespace

ordered_json script_json(const ScriptEstimate& found) {
  ordered_json json = {{"gpu", found.card.name},
                       {"fits", found.fits},
                       {"memory_bytes", found.card.memory_bytes},
                       {"context_bytes", found.card.context_bytes}};
  json.update(found.result);
  for (const ReplayedWay& way : found.ways) json[way.key + "_reserved_bytes"] = way.reserved_bytes;
  json["fits_on"] = found.cards_that_fit;
  return json;
}

std::string script_text(const ScriptEstimate& found, std::string_view command) {
  std::string text;
  const auto add = std::back_inserter(text);
  const ordered_json& result = found.result;
  fmt::format_to(add, "{} on {} ({}): {}\n", command, found.card.title, format_bytes(found.card.memory_bytes),
                 found.fits ? "fits" : "DOES NOT FIT");
  text += bytes_line("peak allocated", result.at("peak_allocated_bytes"), "tensors and workspaces");
  text += bytes_line("peak reserved", result.at("peak_reserved_bytes"), "by PyTorch's caching allocator");
  text += bytes_line("context", found.card.context_bytes, "CUDA, cuBLAS, cuDNN: " + found.card.context_source);
  fmt::format_to(add, "\n  the same steps would reserve\n");
  for (const ReplayedWay& way : found.ways) text += bytes_line(way.what, way.reserved_bytes, way.how);
  if (!found.fits) fmt::format_to(add, "  plimsoll.torch.fit() makes a step fit a budget: docs/pytorch.md\n");
  fmt::format_to(add, "\n  at the peak\n");
  for (const auto& [name, bytes] : result.at("at_peak").items()) {
    text += bytes_line(name.substr(0, name.rfind("_bytes")), bytes.get<int64_t>(), "");
  }
  fmt::format_to(add, "\n  most in\n");
  for (const ordered_json& module : result.at("modules")) {
    fmt::format_to(add, "  {:>11}  {}\n", format_bytes(module.at("bytes").get<int64_t>()),
                   module.at("name").get<std::string>());
  }
  fmt::format_to(add, "\n  fits on: {}\n",
                 found.cards_that_fit.empty() ? "none of the cards that are known"
                                              : fmt::format("{}", fmt::join(found.cards_that_fit, ", ")));
  fmt::format_to(add, "  {} optimizer steps in {:.1f} s with PyTorch {}\n", result.at("steps").get<int64_t>(),
                 result.at("seconds").get<double>(), result.at("torch").get<std::string>());
  for (const ordered_json& assumption : result.at("assumptions")) {
    fmt::format_to(add, "  assumed: {} ({} times)\n", assumption.at("what").get<std::string>(),
                   assumption.at("times").get<int64_t>());
  }
  return text;
}

Page script_page(const ScriptEstimate& found, const std::string& command, const explain::Input& input) {
  Page page = explanation_page(explain::explain(input, command), input);
  page.verb = "estimate";
  page.title = command;
  page.verdict = {found.fits ? "good" : "bad",
                  found.fits ? "fits" : "does not fit",
                  fmt::format("On {}, which has {} left beside the context", found.card.title,
                              format_bytes(found.card.left_bytes())),
                  {"estimated on a simulated card"}};
  page.limit = PageFigure{found.card.name, found.card.left_bytes(), "without the context"};
  page.figures = {{"peak allocated", found.result.at("peak_allocated_bytes").get<int64_t>(), "tensors and workspaces"},
                  {"peak reserved", found.result.at("peak_reserved_bytes").get<int64_t>(), "PyTorch's allocator"},
                  {"the card", found.card.memory_bytes},
                  {"context", found.card.context_bytes, "CUDA and its libraries"}};
  for (const ReplayedWay& way : found.ways) page.figures.push_back({way.what, way.reserved_bytes, way.how});
  page.explanation.reset();
  return page;
}

}  // namespace plimsoll::report
