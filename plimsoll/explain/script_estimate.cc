#include "plimsoll/explain/script_estimate.h"

#include <optional>
#include <string_view>

#include "plimsoll/base/category.h"
#include "plimsoll/base/file.h"
#include "plimsoll/base/oom.h"
#include "plimsoll/explain/expandable.h"
#include "plimsoll/memory/replay/policies.h"

namespace plimsoll::explain {
namespace {

// What the trace takes under an allocator; none when it runs out of `capacity` (0: no limit).
std::optional<int64_t> reserved_under(const trace::Trace& trace, std::string_view allocator, int64_t capacity) {
  replay::Device device;
  if (capacity > 0) device.capacity = {capacity, "the card"};
  try {
    if (allocator == "expandable") {
      ExpandableSegments segments(device);
      return replay::replay(trace, segments).policy.reserved_peak_bytes;
    }
    return replay::replay(trace, *replay::make_policy(allocator, device)).policy.reserved_peak_bytes;
  } catch (const ResourceExhausted&) {
    return std::nullopt;
  }
}

trace::Trace at_half_the_batch(trace::Trace trace) {
  for (trace::Event& event : trace.events) {
    const Category category = trace.tags[event.tag].category;
    if (category == Category::activation || category == Category::input) event.bytes = (event.bytes + 1) / 2;
  }
  return trace;
}

std::vector<ReplayedWay> replayed_ways(const trace::Trace& trace) {
  const auto bytes = [](const trace::Trace& of, const char* allocator) {
    return reserved_under(of, allocator, 0).value_or(0);
  };
  return {{"expandable_segments", "expandable segments", "PYTORCH_ALLOC_CONF=expandable_segments:True",
           bytes(trace, "expandable")},
          {"cuda_malloc_async", "cudaMallocAsync", "PYTORCH_ALLOC_CONF=backend:cudaMallocAsync", bytes(trace, "async")},
          {"pool", "our pool", "plimsoll exec --pool -- ...", bytes(trace, "pool")},
          {"half_batch", "half the batch", "activations and inputs halved, the same allocator",
           bytes(at_half_the_batch(trace), "torch")}};
}

bool fits_on(const trace::Trace& trace, const Card& card) {
  return card.left_bytes() > 0 && reserved_under(trace, "torch", card.left_bytes()).has_value();
}

}  // namespace

std::filesystem::path largest_result(const std::filesystem::path& folder) {
  std::filesystem::path largest;
  int64_t most = -1;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const int64_t bytes = nlohmann::json::parse(read_file(entry.path().string())).at("peak_reserved_bytes");
    if (bytes > most) most = bytes, largest = entry.path();
  }
  return largest;
}

ScriptEstimate estimate_script(const trace::Trace& trace, nlohmann::ordered_json result, const Card& card,
                               const std::vector<Card>& cards) {
  ScriptEstimate found{card, std::move(result), fits_on(trace, card), replayed_ways(trace), {}};
  for (const Card& other : cards) {
    if (fits_on(trace, other)) found.cards_that_fit.push_back(other.name);
  }
  return found;
}

}  // namespace plimsoll::explain
