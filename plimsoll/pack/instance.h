// The buffers in the solver's own terms. Times become sections: the moments at which the set of live buffers is as
// large as it gets, in order; what holds in every section holds always. Bytes become units of the grid that all sizes
// lie on, so a buffer is a size and the sections it spans (one run of them, or several when it has gaps).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plimsoll/pack/pack.h"

namespace plimsoll::pack {

// A run of sections, [first, end).
struct Span {
  int32_t first = 0;
  int32_t end = 0;
};

struct Instance {
  int64_t unit = 1;                 // bytes; sizes, alignments, fixed offsets and loads below are in units
  std::vector<int64_t> sizes;       // one per buffer
  std::vector<int64_t> alignments;  // empty when every multiple of the unit will do
  std::vector<int64_t> fixed;       // -1: free; empty when all are
  std::vector<Span> spans;          // of buffer i: [span_begin[i], span_begin[i + 1]), in order
  std::vector<int32_t> span_begin;  // empty when each buffer has one span
  std::vector<int64_t> loads;       // of each section: the sizes alive in it, together
  std::vector<int64_t> times;       // of each section: a time within it

  int32_t count() const { return static_cast<int32_t>(sizes.size()); }
  int32_t sections() const { return static_cast<int32_t>(loads.size()); }
  int64_t alignment(int32_t i) const { return alignments.empty() ? 1 : alignments[i]; }
  int64_t fixed_offset(int32_t i) const { return fixed.empty() ? -1 : fixed[i]; }
  std::span<const Span> spans_of(int32_t i) const {
    if (span_begin.empty()) return {&spans[i], 1};
    return {&spans[span_begin[i]], static_cast<size_t>(span_begin[i + 1] - span_begin[i])};
  }
  // From the first section to the last, gaps filled.
  Span hull(int32_t i) const { return {spans_of(i).front().first, spans_of(i).back().end}; }
};

// ArgumentError that names the index when a buffer makes no sense / also when sizes add up too high.
void check_buffer(const Buffer& buffer, size_t index);
void check_buffers(std::span<const Buffer> buffers);

// The runs of time in which a buffer is alive, in order: `visit(first, end)`.
template <typename Visit>
void for_each_piece(const Buffer& buffer, Visit visit) {
  int64_t from = buffer.first;
  for (const Gap& gap : buffer.gaps) {
    if (from < gap.first) visit(from, gap.first);
    from = gap.end;
  }
  if (from < buffer.end) visit(from, buffer.end);
}

// ArgumentError when a buffer makes no sense.
Instance make_instance(std::span<const Buffer> buffers);

// For each buffer, the largest load of its sections.
std::vector<int64_t> crowds(const Instance& instance);

// Whether two lists of spans, each in order, have a section in common.
bool overlap(std::span<const Span> a, std::span<const Span> b);

// The part of `whole` that has only these buffers, in this order, with the sections that still differ.
Instance restrict_to(const Instance& whole, std::span<const int32_t> buffers);

// What `whole` is within these sections only: if this does not fit, `whole` does not.
Instance cut_out(const Instance& whole, Span window);

}  // namespace plimsoll::pack
