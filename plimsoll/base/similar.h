// Names for somebody who typed another one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// Whether `asked` may be a typing error of `name`, or a part of it.
bool is_similar(std::string_view asked, std::string_view name);

// "did you mean train? " of the names that are similar; empty where none is.
std::string similar_hint(std::string_view asked, std::span<const std::string> names);

}  // namespace plimsoll
