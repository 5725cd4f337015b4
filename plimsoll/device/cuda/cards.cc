#include "plimsoll/device/cuda/cards.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "plimsoll/base/error.h"
#include "plimsoll/device/cuda/card_texts.h"

namespace plimsoll::cuda {
namespace {

const std::vector<Card>& all_cards() {
  static const std::vector<Card> cards = [] {
    std::vector<Card> made;
    for (const auto& [name, text] : card_texts()) made.push_back(parse_card(name, text));
    return made;
  }();
  return cards;
}

const Card*& on_paper() {
  static const Card* card = nullptr;
  return card;
}

Workspaces*& recording() {
  static Workspaces* workspaces = nullptr;
  return workspaces;
}

}  // namespace

int64_t Card::workspace_of(std::string_view convolution) const {
  const auto found = workspaces.find(convolution);
  return found == workspaces.end() ? kUnknownWorkspace : found->second;
}

Card parse_card(std::string_view name, std::string_view json) {
  try {
    const nlohmann::json file = nlohmann::json::parse(json);
    Card card{.name = std::string(name),
              .title = file.at("title"),
              .architecture = file.at("architecture"),
              .memory_bytes = file.at("memory_bytes"),
              .context_bytes = file.at("context_bytes"),
              .flops_per_s = file.at("flops_per_s"),
              .bytes_per_s = file.at("bytes_per_s")};
    const nlohmann::json workspaces = file.value("workspaces", nlohmann::json::object());
    for (const auto& [key, bytes] : workspaces.items()) {
      card.workspaces.emplace(key, bytes.get<int64_t>());
    }
    return card;
  } catch (const nlohmann::json::exception& error) {
    throw ArgumentError(fmt::format("the file of card {}: {}", name, error.what()));
  }
}

const Card* find_card(std::string_view name) {
  for (const Card& card : all_cards()) {
    if (card.name == name) return &card;
  }
  return nullptr;
}

std::vector<std::string> card_names() {
  std::vector<std::string> names;
  for (const Card& card : all_cards()) names.push_back(card.name);
  return names;
}

const Card* card_on_paper() { return on_paper(); }
void set_card_on_paper(const Card* card) { on_paper() = card; }

Workspaces::Workspaces() { recording() = this; }
Workspaces::~Workspaces() { recording() = nullptr; }

void Workspaces::note(const std::string& convolution, int64_t bytes) {
  if (recording() != nullptr) recording()->found_[convolution] = bytes;
}

}  // namespace plimsoll::cuda
