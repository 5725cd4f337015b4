#include "plimsoll/base/category.h"

namespace plimsoll {
namespace {

constexpr std::array<std::string_view, kAllCategories.size()> kNames = {
    "other", "parameter", "gradient", "optimizer_state", "activation", "input", "scratch", "data"};

}  // namespace

std::string_view name(Category category) { return kNames[static_cast<size_t>(category)]; }

std::optional<Category> try_parse_category(std::string_view text) {
  for (const Category category : kAllCategories) {
    if (name(category) == text) return category;
  }
  return std::nullopt;
}

}  // namespace plimsoll
