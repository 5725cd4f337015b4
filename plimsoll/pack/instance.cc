#include "plimsoll/pack/instance.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"

namespace plimsoll::pack {
namespace {

[[noreturn]] void reject(size_t index, std::string_view what, int64_t found, std::string_view expected) {
  throw ArgumentError(fmt::format("buffer {}: {} is {}, expected {}", index, what, found, expected));
}

void check_gaps(const Buffer& buffer, size_t index) {
  int64_t from = buffer.first;
  bool alive = false;
  for (const Gap& gap : buffer.gaps) {
    alive |= gap.first > from;
    if (gap.first < from) reject(index, "the start of a gap", gap.first, "gaps in order within the lifetime");
    if (gap.end <= gap.first) reject(index, "the end of a gap", gap.end, "one after its start");
    from = gap.end;
  }
  if (from > buffer.end) reject(index, "the end of a gap", from, "gaps in order within the lifetime");
  if (from == buffer.end && !alive) reject(index, "the end of a gap", from, "gaps that leave some of the lifetime");
}

void check_fixed_offset(const Buffer& buffer, size_t index) {
  if (!buffer.fixed_offset) return;
  if (*buffer.fixed_offset < 0) reject(index, "the fixed offset", *buffer.fixed_offset, "at least 0");
  if (*buffer.fixed_offset % buffer.alignment != 0) {
    reject(index, "the fixed offset", *buffer.fixed_offset, fmt::format("a multiple of {}", buffer.alignment));
  }
}

// Everything placed end to end with the worst padding stays below 2^62, so sums of offsets cannot overflow.
void check_total(std::span<const Buffer> buffers) {
  constexpr int64_t kMost = int64_t{1} << 62;
  int64_t total = 0;
  int64_t highest = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const int64_t padded = checked_add(buffers[i].bytes, buffers[i].alignment).value_or(INT64_MAX);
    total = checked_add(total, padded).value_or(INT64_MAX);
    highest = std::max(highest, buffers[i].fixed_offset.value_or(0));
    if (total > kMost - std::min(highest, kMost)) {
      reject(i, "the size", buffers[i].bytes, "sizes and offsets that add up to less than 2^62");
    }
  }
}

// The coarsest grid on which an optimal packing lies: offsets are sums of sizes, rounded up to alignments.
int64_t grid_unit(std::span<const Buffer> buffers) {
  int64_t unit = 0;
  for (const Buffer& buffer : buffers) {
    unit = std::gcd(unit, buffer.bytes);
    if (buffer.fixed_offset) unit = std::gcd(unit, *buffer.fixed_offset);
  }
  for (int64_t before = 0; before != unit;) {
    before = unit;
    for (const Buffer& buffer : buffers) {
      if (unit % buffer.alignment != 0) unit = std::gcd(unit, buffer.alignment);
    }
  }
  return std::max<int64_t>(unit, 1);
}

void set_sizes(Instance& instance, std::span<const Buffer> buffers) {
  instance.unit = grid_unit(buffers);
  instance.sizes.reserve(buffers.size());
  for (const Buffer& buffer : buffers) {
    instance.sizes.push_back(buffer.bytes / instance.unit);
    const size_t before = instance.sizes.size() - 1;
    if (instance.unit % buffer.alignment != 0) {
      instance.alignments.resize(buffers.size(), 1);
      instance.alignments[before] = buffer.alignment / instance.unit;
    }
    if (buffer.fixed_offset) {
      instance.fixed.resize(buffers.size(), -1);
      instance.fixed[before] = *buffer.fixed_offset / instance.unit;
    }
  }
}

// The start or end of a piece: a run of time in which a buffer is alive.
struct Edge {
  int64_t time;
  uint32_t code;  // piece * 2 + 1 for a start, so that at one time ends come first

  bool starts() const { return (code & 1) != 0; }
  uint32_t piece() const { return code >> 1; }
  bool operator<(const Edge& other) const {
    if (time != other.time) return time < other.time;
    return starts() != other.starts() ? other.starts() : code < other.code;
  }
};

// A section closes at each end that follows a start: no later moment has all of its buffers alive.
void number_sections(Instance& instance, std::vector<Edge>& edges) {
  std::sort(edges.begin(), edges.end());
  instance.spans.resize(edges.size() / 2);
  int64_t last_start = 0;
  bool open = false;
  for (const Edge& edge : edges) {
    Span& span = instance.spans[edge.piece()];
    if (edge.starts()) {
      span.first = static_cast<int32_t>(instance.times.size());
      last_start = edge.time;
      open = true;
    } else {
      if (open) instance.times.push_back(last_start);
      open = false;
      span.end = static_cast<int32_t>(instance.times.size());
    }
  }
}

void add_loads(Instance& instance) {
  instance.loads.assign(instance.times.size() + 1, 0);
  for (int32_t i = 0; i < instance.count(); ++i) {
    for (const Span& span : instance.spans_of(i)) {
      instance.loads[span.first] += instance.sizes[i];
      instance.loads[span.end] -= instance.sizes[i];
    }
  }
  std::partial_sum(instance.loads.begin(), instance.loads.end(), instance.loads.begin());
  instance.loads.pop_back();
}

class PieceList {
 public:
  explicit PieceList(size_t count) { edges_.reserve(2 * count); }

  void add(int64_t first, int64_t end) {
    if (first >= end) return;
    const auto piece = static_cast<uint32_t>(edges_.size() / 2);
    edges_.push_back({first, piece * 2 + 1});
    edges_.push_back({end, piece * 2});
  }
  int32_t size() const { return static_cast<int32_t>(edges_.size() / 2); }
  std::vector<Edge>& edges() { return edges_; }

 private:
  std::vector<Edge> edges_;
};

void finish(Instance& instance, PieceList& pieces) {
  number_sections(instance, pieces.edges());
  add_loads(instance);
}

// A part of `whole` that takes its buffers one by one, each within the sections of a window.
class PartBuilder {
 public:
  PartBuilder(const Instance& whole, Span window, size_t count) : whole_(whole), window_(window), pieces_(count) {
    part_.unit = whole.unit;
  }

  void add(int32_t i) {
    part_.sizes.push_back(whole_.sizes[i]);
    if (!whole_.alignments.empty()) part_.alignments.push_back(whole_.alignments[i]);
    if (!whole_.fixed.empty()) part_.fixed.push_back(whole_.fixed[i]);
    if (!whole_.span_begin.empty()) part_.span_begin.push_back(pieces_.size());
    for (const Span& span : whole_.spans_of(i)) {
      pieces_.add(std::max(span.first, window_.first), std::min(span.end, window_.end));
    }
  }

  Instance finished() {
    if (!whole_.span_begin.empty()) part_.span_begin.push_back(pieces_.size());
    finish(part_, pieces_);
    for (int64_t& time : part_.times) time = whole_.times[time];
    return std::move(part_);
  }

 private:
  const Instance& whole_;
  Span window_;
  Instance part_;
  PieceList pieces_;
};

}  // namespace

void check_buffer(const Buffer& buffer, size_t index) {
  if (buffer.bytes < 1) reject(index, "the size", buffer.bytes, "at least 1 byte");
  if (buffer.end <= buffer.first) reject(index, "the end", buffer.end, fmt::format("later than {}", buffer.first));
  if (buffer.alignment < 1) reject(index, "the alignment", buffer.alignment, "at least 1");
  check_fixed_offset(buffer, index);
  check_gaps(buffer, index);
}

void check_buffers(std::span<const Buffer> buffers) {
  for (size_t i = 0; i < buffers.size(); ++i) check_buffer(buffers[i], i);
  check_total(buffers);
}

Instance make_instance(std::span<const Buffer> buffers) {
  check_buffers(buffers);
  Instance instance;
  set_sizes(instance, buffers);
  PieceList pieces(buffers.size());
  const bool gaps = std::any_of(buffers.begin(), buffers.end(), [](const Buffer& b) { return !b.gaps.empty(); });
  for (const Buffer& buffer : buffers) {
    if (gaps) instance.span_begin.push_back(pieces.size());
    for_each_piece(buffer, [&](int64_t first, int64_t end) { pieces.add(first, end); });
  }
  if (gaps) instance.span_begin.push_back(pieces.size());
  finish(instance, pieces);
  return instance;
}

std::vector<int64_t> crowds(const Instance& instance) {
  std::vector<int64_t> crowd(instance.count());
  for (int32_t i = 0; i < instance.count(); ++i) {
    for (const Span& span : instance.spans_of(i)) {
      const auto most = std::max_element(instance.loads.begin() + span.first, instance.loads.begin() + span.end);
      crowd[i] = std::max(crowd[i], *most);
    }
  }
  return crowd;
}

bool overlap(std::span<const Span> a, std::span<const Span> b) {
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].first < b[j].end && b[j].first < a[i].end) return true;
    (a[i].end < b[j].end ? i : j) += 1;
  }
  return false;
}

Instance restrict_to(const Instance& whole, std::span<const int32_t> buffers) {
  PartBuilder part(whole, {0, whole.sections()}, buffers.size());
  for (const int32_t i : buffers) part.add(i);
  return part.finished();
}

Instance cut_out(const Instance& whole, Span window) {
  PartBuilder part(whole, window, whole.count());
  for (int32_t i = 0; i < whole.count(); ++i) {
    if (overlap(whole.spans_of(i), {&window, 1})) part.add(i);
  }
  return part.finished();
}

}  // namespace plimsoll::pack
