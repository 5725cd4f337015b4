#include "plimsoll/memory/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <mutex>

#include "plimsoll/base/bytes.h"

namespace plimsoll {
namespace {

// The pages a pool may hold beyond its peak of live bytes: what is not used is not kept, but for a little that saves
// remapping. Together below one in a hundred.
constexpr int64_t kLeanShare = 512;   // 1/512 of the peak
constexpr int64_t kRoomyShare = 101;  // 1/101 of the peak

Heap::Allowance allowance_for(int64_t peak_bytes, int64_t page_bytes) {
  return {.lean_pages = (peak_bytes + peak_bytes / kLeanShare) / page_bytes,
          .roomy_pages = (peak_bytes + peak_bytes / kRoomyShare) / page_bytes};
}

int64_t checked_limit(const PageSource& pages, const Budget& budget) {
  if (budget.bytes < pages.page_bytes()) {
    throw ArgumentError(fmt::format("a budget of {} ({}) is less than one page of {} ({})", format_bytes(budget.bytes),
                                    budget.source, format_bytes(pages.page_bytes()), pages.device()));
  }
  return budget.bytes;
}

}  // namespace

Pool::Pool(PageSource& pages, Budget budget, trace::Recorder& recorder, StreamOrder* order, Calls calls)
    : budget_(std::move(budget)),
      recorder_(recorder),
      order_(order != nullptr ? *order : host_order_),
      lock_(calls),
      pages_(pages, checked_limit(pages, budget_)),
      slabs_(pages_, order_),
      heap_(pages_, order_) {}

Pool::~Pool() {
  assert(live_blocks_ == 0 && "a block outlived its pool");
  cool();
  try {
    order_.synchronize();   // work on freed blocks may still be queued, and their pages go now
  } catch (const Error&) {  // a device that failed runs nothing any more
  }
}

Block Pool::allocate(const Request& request) {
  if (request.bytes < 0) throw ArgumentError(fmt::format("{} bytes were asked of a pool", request.bytes));
  Block block;
  if (request.bytes == 0) return block;
  if (request.stream < 0) throw ArgumentError(fmt::format("stream {} is negative", request.stream));
  if (request.bytes > budget_.bytes) throw ResourceExhausted(report(request));
  const int64_t bytes = align_up(request.bytes, Heap::kGranule);
  if (try_allocate(bytes, request, block)) return block;
  std::vector<std::string> tried;
  for (const Reclaim& reclaim : reclaims()) {
    tried.push_back(fmt::format("{}: {} freed", reclaim.name, format_bytes(reclaim.run(bytes))));
    if (try_allocate(bytes, request, block)) return block;
  }
  OomReport failure = report(request);
  failure.tried = std::move(tried);
  throw ResourceExhausted(std::move(failure));
}

// `block` is filled field by field where the caller keeps it: copied as a whole it would wait for its own stores.
bool Pool::try_allocate(int64_t bytes, const Request& request, Block& block) {
  const std::lock_guard guard(lock_);
  const uint32_t id = take(bytes, request);
  if (id == kNone) return false;
  Entry& entry = entries_[id];
  entry.tag = request.tag;
  ++live_blocks_;
  live_bytes_ += bytes;
  live_peak_bytes_ = std::max(live_peak_bytes_, live_bytes_);
  ever_peak_bytes_ = std::max(ever_peak_bytes_, live_bytes_);
  recorder_.record_alloc(id, bytes, request.tag, request.stream);
  block.data = data_of(entry);
  block.bytes = bytes;
  block.id = id;
  block.generation = entry.generation;
  return true;
}

uint32_t Pool::take(int64_t bytes, const Request& request) {
  if (const uint32_t warm = take_warm(bytes, request.stream); warm != kNone) return warm;
  if (const uint32_t cold = take_cold(bytes, request); cold != kNone) return cold;
  // Pages that only the other kind of block could use are free for both once they are back in the ledger.
  cool();
  if (slabs_.trim() + heap_.trim() == 0) return kNone;
  return take_cold(bytes, request);
}

uint32_t Pool::take_warm(int64_t bytes, Stream stream) {
  for (size_t i = warm_.count; i-- > 0;) {
    const Warm::Spare& spare = warm_.blocks[i];
    if (spare.bytes != bytes || spare.stream != stream) continue;
    const uint32_t id = spare.id;
    for (--warm_.count; i < warm_.count; ++i) warm_.blocks[i] = warm_.blocks[i + 1];
    return id;
  }
  return kNone;
}

uint32_t Pool::take_cold(int64_t bytes, const Request& request) {
  if (bytes > slabs_.largest_bytes()) cool();
  if (unused_entries_.empty()) add_entry();
  const uint32_t id = unused_entries_.back();
  if (!place(entries_[id], bytes, request.stream)) return kNone;
  unused_entries_.pop_back();
  return id;
}

bool Pool::place(Entry& entry, int64_t bytes, Stream stream) {
  if (bytes <= slabs_.largest_bytes()) {
    const auto slot = slabs_.allocate(bytes, stream);
    if (!slot) return false;
    entry.kind = Entry::Kind::slab;
    entry.slot = *slot;
  } else {
    const int64_t peak = std::max(ever_peak_bytes_, live_bytes_ + bytes);
    const auto span = heap_.allocate(bytes, stream, live_bytes_, allowance_for(peak, pages_.page_bytes()));
    if (!span) return false;
    entry.kind = Entry::Kind::heap;
    entry.span = *span;
  }
  entry.bytes = bytes;
  entry.stream = stream;
  return true;
}

void Pool::add_entry() {
  entries_.push_back({.generation = 1});
  unused_entries_.reserve(entries_.capacity());  // so that `free` never allocates
  unused_entries_.push_back(static_cast<uint32_t>(entries_.size() - 1));
}

void Pool::free(const Block& block, Stream stream) {
  if (block.bytes == 0) return;
  if (stream < 0) throw ArgumentError(fmt::format("stream {} is negative", stream));
  const std::lock_guard guard(lock_);
  free_locked(block, entry_of(block), stream);
}

void Pool::free(const Block& block) {
  if (block.bytes == 0) return;
  const std::lock_guard guard(lock_);
  Entry& entry = entry_of(block);
  free_locked(block, entry, entry.stream);
}

void Pool::free_locked(const Block& block, Entry& entry, Stream stream) {
  if (stream != entry.stream && entry.kind == Entry::Kind::slab) order_.wait(entry.stream, stream);
  ++entry.generation;  // the handle is spent
  live_bytes_ -= entry.bytes;
  --live_blocks_;
  recorder_.record_free(block.id, entry.bytes, entry.tag, entry.stream);
  // A large block is the other stream's from now on: who takes it from there waits then, if it is still busy at all.
  if (entry.kind == Entry::Kind::heap) entry.stream = stream;
  if (warm_.count == Warm::kMost) cool();
  Warm::Spare& spare = warm_.blocks[warm_.count++];
  spare.bytes = entry.bytes;
  spare.id = block.id;
  spare.stream = entry.stream;
}

Pool::Entry& Pool::entry_of(const Block& block) {
  const bool ours = block.id < entries_.size() && entries_[block.id].generation == block.generation &&
                    entries_[block.id].bytes == block.bytes && data_of(entries_[block.id]) == block.data;
  if (!ours) {
    throw ArgumentError(
        fmt::format("a block of {} at {} is not alive in this pool: it was freed already, or is "
                    "another pool's",
                    format_bytes(block.bytes), fmt::ptr(block.data)));
  }
  return entries_[block.id];
}

void Pool::give_back(Entry& entry) {
  if (entry.kind == Entry::Kind::slab) {
    slabs_.free(entry.slot);
  } else {
    heap_.free(entry.span, entry.bytes, entry.stream);
  }
  entry.kind = Entry::Kind::unused;
}

void Pool::cool() {
  for (size_t i = 0; i < warm_.count; ++i) {
    give_back(entries_[warm_.blocks[i].id]);
    unused_entries_.push_back(warm_.blocks[i].id);
  }
  warm_.count = 0;
}

void Pool::add_reclaim(std::string name, std::function<int64_t(int64_t bytes)> reclaim) {
  const std::lock_guard guard(lock_);
  reclaims_.push_back({std::move(name), std::move(reclaim)});
}

std::vector<Pool::Reclaim> Pool::reclaims() const {
  const std::lock_guard guard(lock_);
  return reclaims_;
}

int64_t Pool::trim() {
  const std::lock_guard guard(lock_);
  cool();
  return slabs_.trim() + heap_.trim();
}

PoolStats Pool::stats() const {
  const std::lock_guard guard(lock_);
  return {.live_bytes = live_bytes_,
          .live_blocks = live_blocks_,
          .live_peak_bytes = live_peak_bytes_,
          .reserved_bytes = pages_.resident_pages() * pages_.page_bytes(),
          .reserved_peak_bytes = pages_.peak_pages() * pages_.page_bytes(),
          .pages_committed = pages_.created_pages(),
          .pages_remapped = heap_.stats().remapped_pages,
          .remapping_allocations = heap_.stats().remapping_allocations};
}

void Pool::reset_peak() {
  const std::lock_guard guard(lock_);
  live_peak_bytes_ = live_bytes_;
  pages_.reset_peak();
}

std::vector<LiveTag> Pool::live_by_tag() const {
  std::map<uint32_t, LiveTag> tags;
  {
    const std::lock_guard guard(lock_);
    std::vector<bool> is_warm(entries_.size());
    for (size_t i = 0; i < warm_.count; ++i) is_warm[warm_.blocks[i].id] = true;
    for (size_t id = 0; id < entries_.size(); ++id) {
      if (entries_[id].kind == Entry::Kind::unused || is_warm[id]) continue;
      LiveTag& tag = tags[entries_[id].tag];
      tag.bytes += entries_[id].bytes;
      ++tag.blocks;
    }
  }
  std::vector<LiveTag> found;
  for (auto& [index, tag] : tags) {
    const trace::Tag known = recorder_.tag(index);
    tag.category = known.category;
    tag.name = known.name;
    found.push_back(std::move(tag));
  }
  return found;
}

OomReport Pool::report(const Request& request) const {
  constexpr size_t kMostBlocks = 10;
  const std::lock_guard guard(lock_);
  const trace::Tag asked = recorder_.tag(request.tag);
  OomReport report;
  report.requested_bytes = request.bytes;
  if (request.spec != nullptr) report.spec = *request.spec;
  report.op = request.op;
  report.tag = asked.name;
  report.category = asked.category;
  report.device = pages_.source().device();
  report.budget = budget_;
  report.live_bytes = live_bytes_;
  report.reserved_bytes = pages_.resident_pages() * pages_.page_bytes();
  report.largest_free_bytes = heap_.largest_free_bytes() + pages_.left_pages() * pages_.page_bytes();
  std::vector<bool> is_warm(entries_.size());
  for (size_t i = 0; i < warm_.count; ++i) is_warm[warm_.blocks[i].id] = true;
  for (size_t id = 0; id < entries_.size(); ++id) {
    const Entry& entry = entries_[id];
    if (entry.kind == Entry::Kind::unused || is_warm[id]) continue;
    const trace::Tag tag = recorder_.tag(entry.tag);
    report.live_by_category[static_cast<size_t>(tag.category)] += entry.bytes;
    report.largest_live.push_back({entry.bytes, tag.category, tag.name});
  }
  std::stable_sort(report.largest_live.begin(), report.largest_live.end(),
                   [](const LiveBlock& a, const LiveBlock& b) { return a.bytes > b.bytes; });
  if (report.largest_live.size() > kMostBlocks) report.largest_live.resize(kMostBlocks);
  suggest(report);
  return report;
}

void Pool::suggest(OomReport& report) const {
  const int64_t asked = std::min(report.requested_bytes, INT64_MAX / 4);  // beyond any budget, and sums stay in range
  int64_t needed = align_up(report.live_bytes + asked, pages_.page_bytes());
  if (needed <= budget_.bytes && !pages_.refusal().empty()) {
    report.help.push_back(fmt::format("more room on the device, which has less than the budget: {}", pages_.refusal()));
    return;
  }
  if (needed <= budget_.bytes) {  // live blocks do not fill the pages they are on
    needed = report.reserved_bytes + align_up(asked, pages_.page_bytes());
  }
  if (needed > budget_.bytes) {
    report.help.push_back(fmt::format("a budget of {} ({} B), or {} less alive at this point", format_bytes(needed),
                                      format_count(needed), format_bytes(needed - budget_.bytes)));
  } else {
    report.help.push_back("a smaller block: one of 1 TiB or more is beyond what a pool places");
  }
  if (report.spec && report.spec->dtype == DType::f32) {
    const int64_t half = report.requested_bytes / 2;
    if (report.live_bytes + half <= budget_.bytes) {
      report.help.push_back(fmt::format("the same tensor in f16 or bf16: {}, which fits", format_bytes(half)));
    }
  }
}

}  // namespace plimsoll
