#include "plimsoll/report/html_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "plimsoll/explain/evidence.h"
#include "plimsoll/report/explanation.h"
#include "plimsoll/report/page_template.h"

namespace plimsoll::report {
namespace {

using explain::Block;
using explain::BlockState;
using explain::DeviceState;
using explain::Lifetime;
using explain::Segment;
using explain::Snapshot;
using explain::Timeline;

std::string base64(const void* data, size_t size) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::string text;
  text.reserve((size + 2) / 3 * 4);
  for (size_t i = 0; i < size; i += 3) {
    const size_t count = std::min<size_t>(3, size - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < count ? bytes[i + k] : 0u);
    for (size_t k = 0; k < 4; ++k) text += k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

template <typename Number>
std::string base64(const std::vector<Number>& numbers) {
  return base64(numbers.data(), numbers.size() * sizeof(Number));
}

// JSON that can stand in a script element, whatever it holds.
std::string for_script(std::string json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

// The numbers of stacks that blocks or lifetimes use, renumbered densely, with their texts.
class StackTexts {
 public:
  explicit StackTexts(const explain::StackTable& stacks) : stacks_(stacks) { number(0); }

  uint32_t number(uint32_t stack) {
    const auto [entry, added] = numbers_.try_emplace(stack, static_cast<uint32_t>(texts_.size()));
    if (added) texts_.push_back({user_frame(stacks_, stack), stack_text(stacks_, stack)});
    return entry->second;
  }

  nlohmann::json json() const {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& [place, frames] : texts_) list.push_back({{"place", place}, {"frames", frames}});
    return list;
  }

 private:
  const explain::StackTable& stacks_;
  std::map<uint32_t, uint32_t> numbers_;
  std::vector<std::pair<std::string, std::vector<std::string>>> texts_;
};

// Lifetimes as columns, and the order in which they begin and end. An operation is the number of a lifetime: itself
// when it begins, its complement when it ends.
nlohmann::json timeline_json(const Timeline& timeline, const DeviceState& device, StackTexts& stacks) {
  std::vector<double> bytes;
  std::vector<uint32_t> stack;
  std::vector<uint8_t> category;
  std::vector<std::pair<int64_t, int32_t>> order;
  for (size_t i = 0; i < timeline.lifetimes.size(); ++i) {
    const Lifetime& lifetime = timeline.lifetimes[i];
    bytes.push_back(static_cast<double>(lifetime.bytes));
    stack.push_back(stacks.number(lifetime.stack));
    category.push_back(static_cast<uint8_t>(lifetime.category));
    order.emplace_back(2 * lifetime.begin + 1, static_cast<int32_t>(i));
    if (lifetime.end < timeline.events) order.emplace_back(2 * lifetime.end, ~static_cast<int32_t>(i));
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<int32_t> operations;
  std::vector<float> seconds;
  const int64_t start = device.events.empty() ? 0 : device.events.front().time_us;
  for (const auto& [position, operation] : order) {
    const auto event = static_cast<size_t>(std::max<int64_t>(0, position >> 1));
    operations.push_back(operation);
    seconds.push_back(event < device.events.size() ? static_cast<float>(device.events[event].time_us - start) / 1e6f
                                                   : 0.0f);
  }
  return {{"bytes", base64(bytes)},
          {"stack", base64(stack)},
          {"category", base64(category)},
          {"operations", base64(operations)},
          {"seconds", base64(seconds)},
          {"peak_bytes", timeline.peak_bytes},
          {"first", std::count_if(order.begin(), order.end(), [](const auto& entry) { return entry.first < 0; })}};
}

nlohmann::json segments_json(const DeviceState& device, StackTexts& stacks) {
  std::vector<double> segment_bytes;
  std::vector<uint32_t> block_count;
  std::vector<double> bytes;
  std::vector<uint32_t> stack;
  std::vector<uint8_t> state;
  for (const Segment& segment : device.segments) {
    segment_bytes.push_back(static_cast<double>(segment.bytes));
    block_count.push_back(static_cast<uint32_t>(segment.blocks.size()));
    for (const Block& block : segment.blocks) {
      bytes.push_back(static_cast<double>(block.bytes));
      stack.push_back(stacks.number(block.stack));
      state.push_back(static_cast<uint8_t>(block.state));
    }
  }
  return {{"segment_bytes", base64(segment_bytes)},
          {"block_count", base64(block_count)},
          {"bytes", base64(bytes)},
          {"stack", base64(stack)},
          {"state", base64(state)}};
}

const DeviceState* device_to_draw(const Snapshot& snapshot) {
  for (const DeviceState& device : snapshot.devices) {
    if (find_oom(device)) return &device;
  }
  return snapshot.devices.empty() ? nullptr : &snapshot.devices.front();
}

nlohmann::json history_json(const Snapshot& snapshot) {
  const DeviceState* device = device_to_draw(snapshot);
  if (device == nullptr) return nullptr;
  const Timeline timeline = make_timeline(snapshot, *device, stack_roles(snapshot.stacks));
  StackTexts stacks(snapshot.stacks);
  nlohmann::json categories = nlohmann::json::array();
  for (const Category category : kAllCategories) categories.push_back(name(category));
  nlohmann::json json = {{"device", device->index}, {"categories", categories}};
  json["timeline"] = timeline_json(timeline, *device, stacks);
  json["segments"] = segments_json(*device, stacks);
  json["stacks"] = stacks.json();
  return json;
}

}  // namespace

std::string html_page(const explain::Explanation& explanation, const explain::Input& input) {
  const bool has_history = input.kind != explain::InputKind::log && explanation.kind != "comparison";
  const nlohmann::json history = has_history ? history_json(input.snapshot) : nlohmann::json(nullptr);
  const auto replace = nlohmann::json::error_handler_t::replace;
  // The marks are found before anything is put in: the data may hold them too.
  const std::string_view page = kPageTemplate;
  constexpr std::string_view kFirst = "@EXPLANATION@";
  constexpr std::string_view kSecond = "@HISTORY@";
  const size_t first = page.find(kFirst);
  const size_t second = page.find(kSecond);
  std::string text(page.substr(0, first));
  text += for_script(explanation_json(explanation));
  text += page.substr(first + kFirst.size(), second - first - kFirst.size());
  text += for_script(history.dump(-1, ' ', false, replace));
  text += page.substr(second + kSecond.size());
  return text;
}

}  // namespace plimsoll::report
