#include "plimsoll/explain/card.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"

namespace plimsoll::explain {
namespace {

namespace fs = std::filesystem;

Card read_card(const fs::path& file) {
  const auto json = nlohmann::json::parse(read_file(file.string()));
  return {file.stem().string(),    file, json.at("deviceName"), json.at("totalGlobalMem"), json.at("contextBytes"),
          json.at("contextSource")};
}

}  // namespace

std::vector<Card> all_cards(const fs::path& folder) {
  std::vector<Card> cards;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") cards.push_back(read_card(entry.path()));
  }
  std::sort(cards.begin(), cards.end(), [](const Card& a, const Card& b) {
    return std::tie(a.memory_bytes, a.name) < std::tie(b.memory_bytes, b.name);
  });
  return cards;
}

Card find_card(const fs::path& folder, const std::string& text) {
  std::string names;
  std::optional<Card> model;
  for (const Card& card : all_cards(folder)) {
    if (card.name == text) return card;
    if (card.name == "h200") model = card;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", card.name);
  }
  try {
    model->memory_bytes = parse_bytes(text);
  } catch (const ArgumentError&) {
    throw ArgumentError(fmt::format("--gpu is {}: expected {}, or a size like 24GiB", quote(text), names));
  }
  model->title = fmt::format("a card of {}", format_bytes(model->memory_bytes));
  model->name = text;
  return *model;
}

}  // namespace plimsoll::explain
