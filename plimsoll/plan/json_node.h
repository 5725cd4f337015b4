// Reads JSON from strangers with errors that say where, and writes it. Inside the plan room; only its sources include
// this.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "plimsoll/base/error.h"

namespace plimsoll::plan {

// A part of a JSON text and the way to it, for errors that say where.
class JsonNode {
 public:
  JsonNode(const nlohmann::ordered_json& json, std::string path, std::string source)
      : json_(&json), path_(std::move(path)), source_(std::move(source)) {}

  [[noreturn]] void fail(std::string_view expected) const {
    const std::string found = json_->is_structured() ? fmt::format("an {}", json_->type_name()) : quote(scalar());
    throw InputError({.source = source_}, fmt::format("{} is {}, expected {}", path_, found, expected));
  }

  JsonNode operator[](const char* key) const {
    if (!json_->is_object()) fail("an object");
    const auto found = json_->find(key);
    if (found == json_->end()) {
      throw InputError({.source = source_}, fmt::format("{} has no \"{}\"", path_, key));
    }
    return {*found, fmt::format("{}.{}", path_, key), source_};
  }

  bool has(const char* key) const { return json_->is_object() && json_->contains(key); }

  // Rejects keys that mean nothing: a typing error would else be a silent change of the plan.
  void allow_only(std::initializer_list<std::string_view> keys) const {
    for (const auto& item : json_->items()) {
      if (std::find(keys.begin(), keys.end(), item.key()) != keys.end()) continue;
      throw InputError({.source = source_},
                       fmt::format("{} has {}, which is no key of a plan", path_, quote(item.key())));
    }
  }

  int64_t integer() const {
    const bool fits = json_->is_number_unsigned() ? json_->get<uint64_t>() <= INT64_MAX : json_->is_number_integer();
    if (!fits || json_->get<int64_t>() < 0) fail("a whole number, not negative");
    return json_->get<int64_t>();
  }
  void require_version(int version) const {
    if (integer() != version) fail(fmt::format("version {}", version));
  }
  double real() const {
    if (!json_->is_number()) fail("a number");
    return json_->get<double>();
  }
  bool flag() const {
    if (!json_->is_boolean()) fail("true or false");
    return json_->get<bool>();
  }
  const std::string& text() const {
    if (!json_->is_string()) fail("a text");
    return json_->get_ref<const std::string&>();
  }

  template <class Visit>
  void for_each(const Visit& visit) const {
    if (!json_->is_array()) fail("a list");
    for (size_t i = 0; i < json_->size(); ++i) visit(JsonNode{(*json_)[i], fmt::format("{}[{}]", path_, i), source_});
  }
  template <class Visit>
  void for_each_pair(const Visit& visit) const {
    if (!json_->is_object()) fail("an object");
    for (const auto& item : json_->items())
      visit(item.key(), JsonNode{item.value(), path_ + "." + item.key(), source_});
  }

 private:
  std::string scalar() const { return json_->dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace); }

  const nlohmann::ordered_json* json_;
  std::string path_;
  std::string source_;
};

// A text that is JSON as a whole; InputError with the place otherwise.
inline nlohmann::ordered_json parse_json(std::string_view text, std::string_view source) {
  try {
    return nlohmann::ordered_json::parse(text);
  } catch (const nlohmann::ordered_json::parse_error& error) {
    const size_t at = std::min(text.size(), error.byte == 0 ? 0 : error.byte - 1);
    const std::string_view before = text.substr(0, at);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const auto column = static_cast<int64_t>(at - (before.rfind('\n') + 1)) + 1;
    const Place place{.source = std::string(source), .line = line, .column = column};
    if (at == text.size()) throw InputError(place, "the end of the text", "the rest of a JSON value");
    throw InputError(place, quote(text.substr(at, 1)), "JSON");
  } catch (const nlohmann::ordered_json::exception&) {  // a number that no type holds
    throw InputError({.source = std::string(source)}, "a number out of range", "numbers that a computer has");
  }
}

// As a file has it. ArgumentError for a name that is no UTF-8, which JSON cannot hold.
inline std::string write_json(const nlohmann::ordered_json& json, int indent) {
  try {
    return json.dump(indent) + "\n";
  } catch (const nlohmann::ordered_json::type_error&) {
    throw ArgumentError("a name that is no UTF-8 cannot stand in JSON: rename the model's file");
  }
}

}  // namespace plimsoll::plan
