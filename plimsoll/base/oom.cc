#include "plimsoll/base/oom.h"

#include <fmt/format.h>

#include <memory>

#include "plimsoll/base/bytes.h"

namespace plimsoll {
namespace {

std::string purpose(const OomReport& report) {
  std::string text;
  if (!report.tag.empty()) text += fmt::format(" for {}", report.tag);
  if (!report.op.empty()) text += fmt::format(" in op {}", report.op);
  return text;
}

std::string what_was_asked(const OomReport& report) {
  if (!report.spec) return "memory";
  return fmt::format("tensor with shape{} and type {}", report.spec->shape.text(), long_name(report.spec->dtype));
}

std::string exact(int64_t bytes) { return fmt::format("{} ({} B)", format_bytes(bytes), format_count(bytes)); }

std::string categories(const OomReport& report) {
  std::string text;
  for (const Category category : kAllCategories) {
    const int64_t bytes = report.live_by_category[static_cast<size_t>(category)];
    if (bytes > 0) text += fmt::format("    {:<16} {:>12}\n", name(category), format_bytes(bytes));
  }
  return text;
}

std::string list(std::string_view title, const std::vector<std::string>& items) {
  if (items.empty()) return "";
  std::string text = fmt::format("  {}:\n", title);
  for (const std::string& item : items) text += fmt::format("    {}\n", item);
  return text;
}

}  // namespace

std::string OomReport::first_line() const {
  return fmt::format("OOM when allocating {} on {} by allocator {}: {} asked{}, {} of {} in use", what_was_asked(*this),
                     device, allocator, format_bytes(requested_bytes), purpose(*this), format_bytes(live_bytes),
                     format_bytes(budget.bytes));
}

std::string OomReport::text() const {
  std::string text = first_line() + "\n";
  text += fmt::format("  budget:       {} from {}\n", exact(budget.bytes), budget.source);
  text += fmt::format("  asked:        {}{}, {}\n", exact(requested_bytes), purpose(*this), name(category));
  text += fmt::format("  live:         {}\n{}", exact(live_bytes), categories(*this));
  text += fmt::format("  reserved:     {}\n", exact(reserved_bytes));
  text += fmt::format("  largest free: {}\n", exact(largest_free_bytes));
  std::vector<std::string> blocks;
  blocks.reserve(largest_live.size());
  for (const LiveBlock& block : largest_live) {
    blocks.push_back(fmt::format("{:>12}  {:<16} {}", format_bytes(block.bytes), name(block.category), block.tag));
  }
  return text + list("largest live blocks", blocks) + list("tried", tried) + list("what would help", help);
}

ResourceExhausted::ResourceExhausted(OomReport report)
    : Error(report.text()), report_(std::make_shared<const OomReport>(std::move(report))) {}

}  // namespace plimsoll
