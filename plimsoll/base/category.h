// What memory is for. Every allocation and every value of a program has one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll {

enum class Category : uint8_t { other, parameter, gradient, optimizer_state, activation, input, scratch, data };

inline constexpr std::array kAllCategories = {Category::other,           Category::parameter,  Category::gradient,
                                              Category::optimizer_state, Category::activation, Category::input,
                                              Category::scratch,         Category::data};

std::string_view name(Category category);  // "optimizer_state"
std::optional<Category> try_parse_category(std::string_view text);

}  // namespace plimsoll
