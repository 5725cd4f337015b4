// Packing again after one buffer or 1 % of them changed, by a Repacker against pack() from nothing: the recorded traces
// (when ../shared/data/traces is there), training steps and allocator-like instances of up to a million buffers.
// Changes follow each other, so that what they leave behind adds up; each packing is checked by the oracle. With an
// argument, the changes are those of another seed.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "bench/pack_instances.h"
#include "plimsoll/pack/oracle.h"
#include "plimsoll/pack/repacker.h"
#include "plimsoll/trace/file.h"

namespace plimsoll::pack {
namespace {

constexpr double kTolerance = 0.01;

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double percent_above(int64_t peak, int64_t bound) {
  return 100.0 * static_cast<double>(peak - bound) / static_cast<double>(bound);
}

// How far a change goes: sizes by 512 bytes and ends by up to 32 moments; or both by up to an eighth, with buffers that
// come and go.
enum class Reach { step, eighth };

// The buffers of a repacker, in step with it.
class Program {
 public:
  explicit Program(std::vector<Buffer> buffers) : buffers_(std::move(buffers)) {}

  // So many buffers at random: as many grow or shrink as end earlier or later; half as many go, and half as many come,
  // each like another at another time.
  Change change(std::mt19937_64& random, size_t count, Reach reach) const {
    Change change;
    std::vector<bool> taken(buffers_.size());
    while (change.removed.size() + change.replaced.size() + change.added.size() < count) {
      const auto id = static_cast<int32_t>(random() % buffers_.size());
      if (buffers_[id].bytes == 0 || taken[id]) continue;
      const uint64_t kind = random() % (reach == Reach::step ? 4 : 6);
      taken[id] = kind < 5;
      if (kind == 4) change.removed.push_back(id);
      if (kind < 4)
        change.replaced.push_back({id, kind < 2 ? resized(random, id, reach) : prolonged(random, id, reach)});
      if (kind == 5) change.added.push_back(like(random, id));
    }
    return change;
  }

  void apply(const Change& change, const Repacked& result) {
    for (const int32_t id : change.removed) buffers_[id] = {};
    for (const auto& [id, buffer] : change.replaced) buffers_[id] = buffer;
    for (size_t i = 0; i < change.added.size(); ++i) {
      if (result.added[i] == std::ssize(buffers_)) buffers_.emplace_back();
      buffers_[result.added[i]] = change.added[i];
    }
  }

  std::vector<Buffer> buffers() const {
    std::vector<Buffer> all = buffers_;
    std::erase_if(all, [](const Buffer& buffer) { return buffer.bytes == 0; });
    return all;
  }

  std::string oracle_says(const Repacker& repacker) const {
    std::vector<int64_t> offsets;
    for (size_t id = 0; id < buffers_.size(); ++id) {
      if (buffers_[id].bytes > 0) offsets.push_back(repacker.offset(static_cast<int32_t>(id)));
    }
    const auto fault = find_fault(buffers(), offsets, repacker.peak_bytes());
    return fault ? fault->text() : "right";
  }

 private:
  Buffer resized(std::mt19937_64& random, int32_t id, Reach reach) const {
    Buffer buffer = buffers_[id];
    const int64_t steps = reach == Reach::step ? 1 : std::max<int64_t>(buffer.bytes / 8 / 512, 1);
    const int64_t by = 512 * (1 + static_cast<int64_t>(random() % steps));
    buffer.bytes = random() % 2 == 0 || buffer.bytes <= by ? buffer.bytes + by : buffer.bytes - by;
    return buffer;
  }

  Buffer prolonged(std::mt19937_64& random, int32_t id, Reach reach) const {
    Buffer buffer = buffers_[id];
    const int64_t most = reach == Reach::step ? 32 : std::max<int64_t>((buffer.end - buffer.first) / 8, 1);
    const int64_t by = 1 + static_cast<int64_t>(random() % most);
    buffer.end += random() % 2 == 0 || buffer.end - buffer.first <= by ? by : -by;
    return buffer;
  }

  Buffer like(std::mt19937_64& random, int32_t id) const {
    Buffer buffer = buffers_[id];
    const int64_t lifetime = buffer.end - buffer.first;
    const int64_t by = static_cast<int64_t>(random() % (2 * lifetime + 1)) - lifetime;
    buffer.first += by;
    buffer.end += by;
    return buffer;
  }

  std::vector<Buffer> buffers_;
};

struct Chain {
  std::vector<double> gains = {};
  double fresh_seconds = 0;
  double again_seconds = 0;
  double fresh_interval = 0;  // the largest of all changes
  double again_interval = 0;
  int restarts = 0;
  size_t moved = 0;
  std::string verdict = "right";

  void add(double fresh, double again) {
    gains.push_back(fresh / again);
    fresh_seconds += fresh;
    again_seconds += again;
  }
  void print(std::string_view name, std::string_view reach) {
    std::sort(gains.begin(), gains.end());
    fmt::print(
        "{:<27} by {:<9} {:>2} times: median {:>8.1f} worst {:>6.2f} all {:>8.4f} s -> {:>8.5f} s {:>7.1f} times  gap "
        "{:.3f} % | {:.3f} %  {} from nothing, {} moved  {}\n",
        name, reach, gains.size(), gains[gains.size() / 2], gains.front(), fresh_seconds, again_seconds,
        fresh_seconds / again_seconds, fresh_interval, again_interval, restarts, moved, verdict);
  }
};

// From nothing, to what the repacker is held to as well: 1 % above the bound, or the best within the time.
double pack_from_nothing(const std::vector<Buffer>& buffers, int64_t bound, Chain& chain) {
  const double start = cpu_seconds();
  const auto capacity = bound + static_cast<int64_t>(kTolerance * static_cast<double>(bound));
  const Result result = pack(buffers, {.capacity = capacity, .time_limit_s = 5});
  const double seconds = cpu_seconds() - start;
  chain.fresh_interval = std::max(chain.fresh_interval, percent_above(result->peak_bytes, result->lower_bound_bytes));
  return seconds;
}

// `count` buffers change at a time, so many times.
void follow(std::string_view name, const std::vector<Buffer>& buffers, const Packing& first, size_t count, Reach reach,
            int changes, uint64_t seed) {
  Program program(buffers);
  Repacker repacker(buffers, first, {.packing = {.time_limit_s = 5}, .tolerance = kTolerance});
  std::mt19937_64 random(seed);
  Chain chain;
  for (int i = 0; i < changes; ++i) {
    const Change change = program.change(random, count, reach);
    const double before = cpu_seconds();
    const Repacked result = repacker.change(change);
    const double again = cpu_seconds() - before;
    program.apply(change, result);
    chain.again_interval = std::max(chain.again_interval, percent_above(repacker.peak_bytes(), repacker.bound().bytes));
    chain.restarts += result.from_nothing ? 1 : 0;
    chain.moved += result.moved.size();
    if (const auto says = program.oracle_says(repacker); says != "right") chain.verdict = says;
    chain.add(pack_from_nothing(program.buffers(), repacker.bound().bytes, chain), again);
  }
  chain.print(fmt::format("{} of {}", count, name), reach == Reach::step ? "a step" : "an eighth");
}

void follow(std::string_view name, const std::vector<Buffer>& buffers, int changes, uint64_t seed) {
  const Result first = pack(buffers, {.time_limit_s = 5});
  const size_t one_percent = std::max<size_t>(buffers.size() / 100, 1);
  follow(name, buffers, *first, one_percent, Reach::step, changes, seed);
  follow(name, buffers, *first, one_percent, Reach::eighth, changes, seed);
  follow(name, buffers, *first, 1, Reach::eighth, changes, seed);
}

int64_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

void weigh_index(const std::vector<Buffer>& buffers) {
  const Result first = pack(buffers);
  const int64_t before = heap_bytes();
  const double start = cpu_seconds();
  const Repacker repacker(buffers, *first);
  fmt::print("building one for {} buffers: {:.2f} s, oracle included; it holds {} bytes a buffer\n\n", buffers.size(),
             cpu_seconds() - start, (heap_bytes() - before) / std::ssize(buffers));
}

void follow_traces(uint64_t seed) {
  for (const auto& file : recorded_traces())
    follow(file.stem().stem().string(), blocks_of(trace::read(file)), 20, seed);
}

}  // namespace
}  // namespace plimsoll::pack

int main(int argc, char** argv) {
  using namespace plimsoll::pack;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  weigh_index(training_step(1'000'000, 6));
  fmt::print(
      "from nothing to within 1 % of the bound -> packing again by a Repacker, processor time; the largest gap of "
      "each\n");
  const uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  follow_traces(seed);
  follow("100,000, training", training_step(100'000, 4), 10, seed);
  follow("100,000, allocator", allocator_like(100'000, 5), 5, seed);
  follow("1,000,000, training", training_step(1'000'000, 4), 5, seed);
  follow("1,000,000, allocator", allocator_like(1'000'000, 5), 5, seed);
}
