// GPUs by name, as files describe them, for scripts that are estimated without one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace plimsoll::explain {

struct Card {
  std::string name;            // "a100-40g"
  std::filesystem::path file;  // its description
  std::string title;           // as the driver calls it
  int64_t memory_bytes = 0;
  int64_t context_bytes = 0;
  std::string context_source;
  int64_t left_bytes() const { return memory_bytes - context_bytes; }
};

// Those that have a file in `folder`, in the order of their memory.
std::vector<Card> all_cards(const std::filesystem::path& folder);

// A card by its name; or a size, for a card like the H200 with that much memory. ArgumentError, with the names, for
// another text.
Card find_card(const std::filesystem::path& folder, const std::string& text);

}  // namespace plimsoll::explain
