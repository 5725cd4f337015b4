#include "plimsoll/report/page.h"

#include <nlohmann/json.hpp>

#include "plimsoll/base/error.h"
#include "plimsoll/report/explanation.h"
#include "plimsoll/report/page_assets.h"

namespace plimsoll::report {
namespace {

using Json = nlohmann::ordered_json;

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

// One field of all items as an array of `Number`.
template <typename Number, typename Item, typename Field>
std::string column(const std::vector<Item>& items, const Field& field) {
  std::vector<Number> numbers;
  numbers.reserve(items.size());
  for (const Item& item : items) numbers.push_back(static_cast<Number>(field(item)));
  return base64(numbers.data(), numbers.size() * sizeof(Number));
}

template <typename Number, typename Item>
std::string column(const std::vector<Item>& items) {
  return column<Number>(items, [](const Item& item) { return item; });
}

template <typename Item, typename Write>
Json list(const std::vector<Item>& items, const Write& write) {
  Json array = Json::array();
  for (const Item& item : items) array.push_back(write(item));
  return array;
}

Json blocks_json(const std::vector<PageBlock>& blocks) {
  const bool placed = !blocks.empty() && blocks.front().address >= 0;
  return {{"bytes", column<double>(blocks, [](const PageBlock& block) { return block.bytes; })},
          {"begin", column<int32_t>(blocks, [](const PageBlock& block) { return block.begin; })},
          {"end", column<int32_t>(blocks, [](const PageBlock& block) { return block.end; })},
          {"label", column<uint32_t>(blocks, [](const PageBlock& block) { return block.label; })},
          {"category", column<uint8_t>(blocks, [](const PageBlock& block) { return block.category; })},
          {"affected", column<uint8_t>(blocks, [](const PageBlock& block) { return block.affected; })},
          {"address",
           placed ? column<double>(blocks, [](const PageBlock& block) { return block.address; }) : std::string()}};
}

Json ranges_json(const std::vector<PageRange>& ranges) {
  return {{"address", column<double>(ranges, [](const PageRange& range) { return range.address; })},
          {"bytes", column<double>(ranges, [](const PageRange& range) { return range.bytes; })},
          {"begin", column<int32_t>(ranges, [](const PageRange& range) { return range.begin; })},
          {"end", column<int32_t>(ranges, [](const PageRange& range) { return range.end; })}};
}

Json edges_json(const std::vector<PageEdge>& edges) {
  return {{"from", column<int32_t>(edges, [](const PageEdge& edge) { return edge.from; })},
          {"to", column<int32_t>(edges, [](const PageEdge& edge) { return edge.to; })},
          {"bytes", column<double>(edges, [](const PageEdge& edge) { return edge.bytes; })},
          {"label", column<uint32_t>(edges, [](const PageEdge& edge) { return edge.label; })}};
}

Json timeline_json(const PageTimeline& timeline) {
  return {{"name", timeline.name},
          {"unit", timeline.unit},
          {"positions", timeline.positions},
          {"seconds", column<float>(timeline.seconds)},
          {"blocks", blocks_json(timeline.blocks)},
          {"ranges", ranges_json(timeline.ranges)},
          {"marks", list(timeline.marks,
                         [](const PageMark& mark) -> Json {
                           return {{"kind", mark.kind}, {"at", mark.at}, {"text", mark.text}};
                         })},
          {"ops", timeline.ops},
          {"edges", edges_json(timeline.edges)}};
}

Json labels_json(const std::vector<PageLabel>& labels) {
  std::vector<uint32_t> path;
  std::vector<uint32_t> start = {0};
  for (const PageLabel& label : labels) {
    path.insert(path.end(), label.path.begin(), label.path.end());
    start.push_back(static_cast<uint32_t>(path.size()));
  }
  return {{"place", column<uint32_t>(labels, [](const PageLabel& label) { return label.place; })},
          {"path", column<uint32_t>(path)},
          {"path_start", column<uint32_t>(start)}};
}

Json view_json(const PageView& view) {
  return {{"switches", view.switches},
          {"timeline", view.timeline},
          {"peak_bytes", view.peak_bytes},
          {"seconds", view.seconds},
          {"note", view.note},
          {"reserved", list(view.reserved, [](const PageReserved& reserved) -> Json {
             return {{"allocator", reserved.allocator},
                     {"peak_bytes", reserved.peak_bytes},
                     {"at", column<int32_t>(reserved.at)},
                     {"bytes", column<double>(reserved.bytes)}};
           })}};
}

Json figure_json(const PageFigure& figure) {
  return {{"name", figure.name}, {"value_bytes", figure.bytes}, {"note", figure.note}};
}

Json verdict_json(const PageVerdict& verdict) {
  return {{"tone", verdict.tone}, {"label", verdict.label}, {"headline", verdict.headline}, {"chips", verdict.chips}};
}

Json card_json(const PageCard& card) {
  return {{"action", card.action},
          {"setting", card.setting},
          {"saves_bytes", card.saves_bytes ? Json(*card.saves_bytes) : Json(nullptr)},
          {"cost", card.cost}};
}

Json switch_json(const PageSwitch& entry) {
  return {{"id", entry.id}, {"name", entry.name}, {"note", entry.note}, {"factor", entry.factor}};
}

Json category_names() {
  Json names = Json::array();
  for (const Category category : kAllCategories) names.push_back(name(category));
  names.push_back("failed request");
  return names;
}

Json to_json(const Page& page) {
  Json json = {{"schema", 1}, {"verb", page.verb}, {"title", page.title}, {"verdict", verdict_json(page.verdict)}};
  json["figures"] = list(page.figures, figure_json);
  json["limit"] = page.limit ? figure_json(*page.limit) : Json(nullptr);
  json["cards_title"] = page.cards_title;
  json["cards"] = list(page.cards, card_json);
  const Json explained = page.explanation ? Json::parse(explanation_json(*page.explanation)) : Json::object();
  json["diagnoses"] = explained.value("diagnoses", Json::array());
  json["recording_snippet"] = explained.value("recording_snippet", Json(nullptr));
  json["notes"] = page.notes;
  json["categories"] = category_names();
  json["frames"] = list(page.frames, [](const PageFrame& frame) { return frame.text; });
  json["frame_kinds"] = column<uint8_t>(page.frames, [](const PageFrame& frame) { return frame.kind; });
  json["labels"] = labels_json(page.labels);
  json["timelines"] = list(page.timelines, timeline_json);
  json["switches"] = list(page.switches, switch_json);
  json["allocators"] = page.allocators;
  json["views"] = list(page.views, view_json);
  return json;
}

// JSON that can stand in a script element, whatever it holds.
std::string for_script(const std::string& json) {
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

}  // namespace

uint32_t PageLabels::frame(const std::string& text, FrameKind kind) {
  const auto [entry, added] = frames_.try_emplace({text, kind}, static_cast<uint32_t>(page_.frames.size()));
  if (added) page_.frames.push_back({text, kind});
  return entry->second;
}

uint32_t PageLabels::label(uint32_t place, const std::vector<uint32_t>& path) {
  const auto [entry, added] = labels_.try_emplace({place, path}, static_cast<uint32_t>(page_.labels.size()));
  if (added) page_.labels.push_back({place, path});
  return entry->second;
}

bool has_page() { return kPageScript[0] != '\0'; }

std::string page_json(const Page& page) {
  // Names are not always UTF-8; what is not becomes U+FFFD.
  return to_json(page).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string html(const Page& page) {
  if (!has_page()) {
    throw UnsupportedError(
        "this build has no page: install Debian's esbuild, node-d3-scale, node-d3-axis and node-d3-selection "
        "(./dev does) and build again");
  }
  std::string text = kPageHead;
  text += "<style>";
  text += kPageStyle;
  text += "</style>\n<script type=\"application/json\" id=\"data\">";
  text += for_script(page_json(page));
  text += "</script>\n<script>";
  text += kPageScript;
  text += "</script>\n</body>\n</html>\n";
  return text;
}

}  // namespace plimsoll::report
