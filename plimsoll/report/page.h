// What a page shows, as plain data: one type for every verb that has --html. `html` puts it, as the JSON of
// docs/page-format.md, into one self-contained file that opens from disk and asks no network for anything.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/base/category.h"
#include "plimsoll/explain/diagnosis.h"

namespace plimsoll::report {

// Categories of blocks are those of plimsoll/base/category.h, and one more: a request that failed, drawn as if granted.
inline constexpr uint8_t kFailedRequest = kAllCategories.size();

enum class FrameKind : uint8_t { own, library, plumbing };  // plumbing: shown only when asked for

struct PageFrame {
  std::string text;
  FrameKind kind = FrameKind::own;
};

// Where a block comes from: one frame that names it, and the way there, outermost first.
struct PageLabel {
  uint32_t place = 0;  // in Page::frames
  std::vector<uint32_t> path = {};
};

// Bytes that are held at the positions [begin, end) of a timeline.
struct PageBlock {
  int64_t bytes = 0;
  int32_t begin = 0;
  int32_t end = 0;
  uint32_t label = 0;
  uint8_t category = 0;
  uint8_t affected = 0;  // bit i: Page::switches[i] scales it
  int64_t address = -1;  // -1: not known
};

// Memory that an allocator has from its device at the positions [begin, end).
struct PageRange {
  int64_t address = 0;
  int64_t bytes = 0;
  int32_t begin = 0;
  int32_t end = 0;
};

// A tensor that an op reads: from the op that made it to the reader.
struct PageEdge {
  int32_t from = -1;  // -1: it comes in, as parameters and inputs do
  int32_t to = 0;
  int64_t bytes = 0;
  uint32_t label = 0;  // of the tensor
};

struct PageMark {
  std::string kind;  // "failure", "step" (the optimizer ends one), "phase"
  int32_t at = 0;
  std::string text;
};

// Positions are events of an allocator (state: after it) or ops of a step (state: while it runs).
struct PageTimeline {
  std::string name;
  std::string unit;  // "event" or "op"
  int32_t positions = 0;
  std::vector<float> seconds = {};  // when each position begins, and the end; empty: not known
  std::vector<PageBlock> blocks = {};
  std::vector<PageRange> ranges = {};
  std::vector<PageMark> marks = {};
  std::vector<std::string> ops = {};  // of each position; empty for events
  std::vector<PageEdge> edges = {};   // between ops
};

// Something that could be otherwise. Where all views share one timeline, `factor` scales the blocks it affects.
struct PageSwitch {
  std::string id;
  std::string name;
  std::string note;
  double factor = 1;
};

// What an allocator holds from its device in a view: a step function of the position.
struct PageReserved {
  uint32_t allocator = 0;  // in Page::allocators
  int64_t peak_bytes = 0;
  std::vector<int32_t> at = {};
  std::vector<int64_t> bytes = {};
};

// The history with some switches on.
struct PageView {
  uint32_t switches = 0;  // bit i: Page::switches[i] is on
  uint32_t timeline = 0;  // in Page::timelines
  int64_t peak_bytes = 0;
  double seconds = 0;  // of a step; 0: not known
  std::string note = {};
  std::vector<PageReserved> reserved = {};
};

struct PageVerdict {
  std::string tone;  // "good", "bad", "neutral"
  std::string label;
  std::string headline;
  std::vector<std::string> chips = {};
};

struct PageFigure {
  std::string name;
  int64_t bytes = 0;
  std::string note = {};
};

// Something that can be done, with the exact line to copy.
struct PageCard {
  std::string action;
  std::string setting = {};
  std::optional<int64_t> saves_bytes = {};
  std::string cost = {};
};

struct Page {
  std::string verb;
  std::string title;
  PageVerdict verdict;
  std::vector<PageFigure> figures = {};
  std::optional<PageFigure> limit = {};  // drawn as a line
  std::string cards_title = {};
  std::vector<PageCard> cards = {};
  std::optional<explain::Explanation> explanation = {};  // its first diagnosis is the verdict's
  std::vector<std::string> notes = {};
  std::vector<PageFrame> frames = {};
  std::vector<PageLabel> labels = {};
  std::vector<PageTimeline> timelines = {};
  std::vector<PageSwitch> switches = {};
  std::vector<std::string> allocators = {};
  std::vector<PageView> views = {};  // the first is what is shown first; none: there is no history
};

// Fills a page's frames and labels, each once.
class PageLabels {
 public:
  explicit PageLabels(Page& page) : page_(page) {}

  uint32_t frame(const std::string& text, FrameKind kind);
  uint32_t label(uint32_t place, const std::vector<uint32_t>& path);

 private:
  Page& page_;
  std::map<std::pair<std::string, FrameKind>, uint32_t> frames_;
  std::map<std::pair<uint32_t, std::vector<uint32_t>>, uint32_t> labels_;
};

// Whether this build has the page: it needs esbuild and D3 when it is built.
bool has_page();

// UnsupportedError when this build has none. Nothing in the data can break out of its place in the page: text goes in
// as JSON with every '<' escaped and is only ever shown as text.
std::string html(const Page& page);

// The JSON alone.
std::string page_json(const Page& page);

}  // namespace plimsoll::report
