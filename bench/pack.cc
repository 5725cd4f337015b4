// Packing: the public MiniMalloc instances (read from ../shared/data/pack when they are there), training steps, a
// million buffers, the recorded traces, and packing again after a small change. Every packing is checked by the oracle.
//
// The peer's seconds are measured when PLIMSOLL_MINIMALLOC names a built `minimalloc`; otherwise those recorded on a
// 2-vCPU Xeon (g++ -O3) are printed. With PLIMSOLL_BENCH_LONG set, the public instances are also minimised for 60 s
// each, and solved with each inference switched off.
#include "plimsoll/pack/pack.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/pack_instances.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/pack/csv.h"
#include "plimsoll/pack/oracle.h"
#include "plimsoll/trace/file.h"

namespace plimsoll::pack {
namespace {

constexpr double kRecordedSeconds[] = {7.8, 5.4, 1.1, 6.3, 5.2, 8.1, 1.8, 2.5, 6.0, 2.1, 0.7};

struct Timed {
  Result result;
  double seconds = 1e9;
  double cpu_seconds = 1e9;
};

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// The fastest of several runs: other work on the machine only ever adds time.
Timed measure(const std::vector<Buffer>& buffers, const Options& options, int runs = 3) {
  Timed best;
  for (int run = 0; run < runs; ++run) {
    const auto start = std::chrono::steady_clock::now();
    const double cpu = cpu_seconds();
    best.result = pack(buffers, options);
    best.cpu_seconds = std::min(best.cpu_seconds, cpu_seconds() - cpu);
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    best.seconds = std::min(best.seconds, wall.count());
  }
  return best;
}

std::string oracle_says(const std::vector<Buffer>& buffers, const Packing& packing) {
  const auto fault = find_fault(buffers, packing.offsets, packing.peak_bytes);
  return fault ? fault->text() : "right";
}

double gap_percent(const Packing& packing) {
  return 100.0 * static_cast<double>(packing.peak_bytes - packing.lower_bound_bytes) /
         static_cast<double>(packing.lower_bound_bytes);
}

std::optional<double> measure_minimalloc(const std::filesystem::path& file) {
  const char* binary = std::getenv("PLIMSOLL_MINIMALLOC");
  if (binary == nullptr) return std::nullopt;
  const auto out = std::filesystem::temp_directory_path() / "minimalloc.csv";
  const std::string command = fmt::format("'{}' --capacity={} --input='{}' --output='{}' >/dev/null 2>&1", binary,
                                          kCapacity, file.string(), out.string());
  const auto start = std::chrono::steady_clock::now();
  if (std::system(command.c_str()) != 0) return std::nullopt;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void decide_public_instances() {
  const bool measured = std::getenv("PLIMSOLL_MINIMALLOC") != nullptr;
  fmt::print("public instances at {} bytes, one thread; MiniMalloc {}\n", kCapacity,
             measured ? "measured now" : "as recorded on a 2-vCPU Xeon");
  fmt::print("{:>4} {:>7} {:>9} {:>9} {:>8} {:>10} {:>9} {:>10} {:>7}\n", "", "buffers", "seconds", "cpu", "nodes",
             "peak", "bound", "MiniMalloc", "oracle");
  double total = 0;
  for (char name = 'A'; name <= 'K'; ++name) {
    const std::vector<Buffer> buffers = read_csv(public_instance(name)).buffers;
    const Timed timed = measure(buffers, {.capacity = kCapacity, .time_limit_s = 60});
    const double peer = measure_minimalloc(public_instance(name)).value_or(kRecordedSeconds[name - 'A']);
    const Packing& packing = *timed.result;
    fmt::print("{:>4} {:>7} {:>9.4f} {:>9.4f} {:>8} {:>10} {:>9} {:>10.1f} {:>7}{}\n", name, buffers.size(),
               timed.seconds, timed.cpu_seconds, packing.nodes, packing.peak_bytes, packing.lower_bound_bytes, peer,
               oracle_says(buffers, packing), timed.result ? "" : "  NOT SOLVED");
    total += timed.seconds;
  }
  fmt::print("total {:.3f} s\n\n", total);
}

void decide_twisted_instances() {
  std::vector<double> seconds;
  int solved = 0;
  for (char name = 'A'; name <= 'K'; ++name) {
    const std::vector<Buffer> buffers = read_csv(public_instance(name)).buffers;
    for (const Twist twist : kTwists) {
      for (const uint64_t seed : {1, 2}) {
        const std::vector<Buffer> next = twisted(buffers, twist, seed);
        const Timed timed =
            measure(next, {.capacity = capacity_for(next), .time_limit_s = 60, .node_limit = 100'000}, 1);
        seconds.push_back(timed.cpu_seconds);
        if (timed.result && oracle_says(next, *timed.result) == "right") ++solved;
      }
    }
  }
  std::sort(seconds.begin(), seconds.end());
  fmt::print(
      "{} twisted instances (shuffled, reversed, resized, prolonged): {} solved in 100,000 nodes; processor time "
      "median "
      "{:.4f} s, nine of ten within {:.3f} s, longest {:.3f} s\n\n",
      seconds.size(), solved, seconds[seconds.size() / 2], seconds[seconds.size() * 9 / 10], seconds.back());
}

void minimise_public_instances() {
  fmt::print("public instances minimised, 60 s each, one thread\n");
  for (char name = 'A'; name <= 'K'; ++name) {
    const std::vector<Buffer> buffers = read_csv(public_instance(name)).buffers;
    const Timed timed = measure(buffers, {.time_limit_s = 60}, 1);
    const Packing& packing = *timed.result;
    fmt::print("{:>4}  peak {:>8}  bound {:>8}  {:<8} {:>8.3f} s (cpu {:.3f})  {}\n", name, packing.peak_bytes,
               packing.lower_bound_bytes, packing.optimal ? "optimal" : fmt::format("{:.2f} %", gap_percent(packing)),
               timed.seconds, timed.cpu_seconds, oracle_says(buffers, packing));
  }
  fmt::print("\n");
}

struct Tally {
  int packed = 0;
  int refuted = 0;
  int64_t nodes = 0;
  double cpu_seconds = 0;

  void add(const Timed& timed) {
    packed += timed.result.outcome == Result::Outcome::packed ? 1 : 0;
    refuted += timed.result.outcome == Result::Outcome::infeasible ? 1 : 0;
    nodes += timed.result->nodes;
    cpu_seconds += timed.cpu_seconds;
  }
};

Tally tally_public(Options options) {
  Tally tally;
  options.capacity = kCapacity;
  for (char name = 'A'; name <= 'K'; ++name) tally.add(measure(read_csv(public_instance(name)).buffers, options, 1));
  return tally;
}

Tally tally_crowded(Options options) {
  constexpr int64_t kSmall = 32;
  Tally tally;
  options.capacity = kSmall;
  std::mt19937_64 random(6);
  for (const int64_t times : {16, 32, 64, 128}) {
    for (int i = 0; i < 20; ++i) tally.add(measure(crowded(random, times, kSmall), options, 1));
  }
  return tally;
}

void switch_off_inferences() {
  constexpr std::pair<const char*, bool Inference::*> kSwitches[] = {
      {"nothing", nullptr},
      {"not first", &Inference::not_first},
      {"support", &Inference::support},
      {"dominance", &Inference::dominance},
      {"symmetry", &Inference::symmetry},
      {"backjumping", &Inference::backjumping},
      {"nogoods", &Inference::nogoods},
      {"left out", &Inference::leave_out},
      {"local proof", &Inference::local_proof},
      {"joins", &Inference::joins},
  };
  fmt::print("switched off, 60,000 nodes each: 11 public instances | 80 crowded ones, with or without a packing\n");
  for (const auto& [name, off] : kSwitches) {
    Options options{.time_limit_s = 60, .node_limit = 60'000};
    if (off != nullptr) options.inference.*off = false;
    const Tally open = tally_public(options);
    const Tally small = tally_crowded(options);
    fmt::print(
        "{:<12} {:>3} packed {:>8} nodes {:>7.3f} s cpu | {:>3} packed {:>3} refuted {:>8} nodes {:>7.3f} s cpu\n",
        name, open.packed, open.nodes, open.cpu_seconds, small.packed, small.refuted, small.nodes, small.cpu_seconds);
  }
  fmt::print("\n");
}

void print_row(std::string_view name, const std::vector<Buffer>& buffers, const Timed& timed) {
  fmt::print("{:<24} {:>8} buffers  {:>8.4f} s (cpu {:.4f})  gap {:.3f} %  {}\n", name, buffers.size(), timed.seconds,
             timed.cpu_seconds, gap_percent(*timed.result), oracle_says(buffers, *timed.result));
}

void pack_training_steps() {
  fmt::print("training steps and large instances, minimised\n");
  for (const uint64_t seed : {1, 2, 3}) {
    const auto buffers = training_step(2000, seed);
    print_row(fmt::format("training step, seed {}", seed), buffers, measure(buffers, {.time_limit_s = 0.045}));
  }
  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  for (const bool training : {true, false}) {
    const auto buffers = training ? training_step(1'000'000, 4) : allocator_like(1'000'000, 5);
    print_row(training ? "training step" : "allocator-like", buffers, measure(buffers, {.time_limit_s = 5}, 1));
  }
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  fmt::print("memory, instance and oracle included: at most {} bytes a buffer\n\n",
             (after.ru_maxrss - before.ru_maxrss) * 1024 / 1'000'000);
}

// Packings to start from, and what they cost.
struct Hints {
  std::vector<Packing> packings = {};  // the first is that of the default seed
  double first_seconds = 0;
  double others_seconds = 0;
};

Hints make_hints(const std::vector<Buffer>& buffers, int64_t capacity, int others) {
  const Options options{.capacity = capacity, .time_limit_s = 60, .node_limit = 100'000};
  Hints hints;
  const double start = cpu_seconds();
  const Result first = pack(buffers, options);
  hints.first_seconds = cpu_seconds() - start;
  if (!first) return hints;
  hints.packings = pack_variously(buffers, others, options);
  hints.others_seconds = cpu_seconds() - start - hints.first_seconds;
  hints.packings.insert(hints.packings.begin(), first.best);
  return hints;
}

// Processor time over several changes of one instance. What one of them takes from nothing varies a thousandfold, so
// that the sum is mostly that of the hardest; the median is what a change usually gains.
struct Again {
  double fresh_seconds = 0;
  double hinted_seconds = 0;
  std::vector<double> gains = {};
  int unsolved = 0;  // from nothing too: such a change may have made the instance infeasible
  std::string verdict = "right";

  Result add(const std::vector<Buffer>& buffers, int64_t capacity, const Timed& fresh, std::span<const Packing> hints) {
    const Timed again =
        measure(buffers, {.capacity = capacity, .time_limit_s = 60, .node_limit = kMostNodes, .hints = hints}, 2);
    if (!fresh.result && !again.result) {
      ++unsolved;
      return again.result;
    }
    fresh_seconds += fresh.cpu_seconds;
    hinted_seconds += again.cpu_seconds;
    gains.push_back(fresh.cpu_seconds / again.cpu_seconds);
    if (!again.result) verdict = "NOT SOLVED";
    if (const auto says = oracle_says(buffers, *again.result); says != "right") verdict = says;
    return again.result;
  }

  std::string text() {
    std::sort(gains.begin(), gains.end());
    return fmt::format("median {:>6.1f} worst {:>5.2f} all {:>8.4f} s -> {:>7.4f} s {:>6.1f} times  {}{}",
                       gains.empty() ? 0 : gains[gains.size() / 2], gains.empty() ? 0 : gains.front(), fresh_seconds,
                       hinted_seconds, fresh_seconds / hinted_seconds, verdict,
                       unsolved == 0 ? "" : fmt::format(" ({} solved by neither, left out)", unsolved));
  }

  static constexpr int64_t kMostNodes = 100'000;
};

Timed from_nothing(const std::vector<Buffer>& buffers, int64_t capacity) {
  return measure(buffers, {.capacity = capacity, .time_limit_s = 60, .node_limit = Again::kMostNodes}, 2);
}

constexpr int kOthers = 15;
constexpr size_t kMostKept = 8;

// The first hint, and the latest packings that took a search: what a program that packs again and again has anyway.
class Kept {
 public:
  explicit Kept(const Packing& first) : packings_{first} {}

  std::span<const Packing> packings() const { return packings_; }
  void note(const Result& result) {
    if (!result || result->nodes == 0) return;
    if (packings_.size() == kMostKept) packings_.erase(packings_.begin() + 1);
    packings_.push_back(*result);
  }

 private:
  std::vector<Packing> packings_;
};

// Packing again was tried on the changes up to 1040 while it was built; those from 5000 on were never looked at.
void pack_again() {
  constexpr int kFirst = 5000;
  constexpr int kChanges = 100;
  fmt::print(
      "packing again after 1 % of the buffers changed, at {} bytes, {} changes of each, processor time: with one "
      "earlier packing | with it and up to {} that were found on the way | with it and {} others that took so long\n",
      kCapacity, kChanges, kMostKept - 1, kOthers);
  for (char name = 'A'; name <= 'K'; ++name) {
    const std::vector<Buffer> buffers = read_csv(public_instance(name)).buffers;
    const Hints hints = make_hints(buffers, kCapacity, kOthers);
    Again with_one;
    Again with_kept;
    Again with_all;
    Kept kept(hints.packings.front());
    for (int change = kFirst; change < kFirst + kChanges; ++change) {
      const std::vector<Buffer> next = changed(buffers, static_cast<uint64_t>(name + 256 * change), kCapacity);
      const Timed fresh = from_nothing(next, kCapacity);
      with_one.add(next, kCapacity, fresh, std::span(hints.packings).first(1));
      kept.note(with_kept.add(next, kCapacity, fresh, kept.packings()));
      with_all.add(next, kCapacity, fresh, hints.packings);
    }
    fmt::print("{:<2} {} | {} | {:.3f} s + {:.3f} s: {}\n", name, with_one.text(), with_kept.text(),
               hints.first_seconds, hints.others_seconds, with_all.text());
  }
  fmt::print("\n");
}

// The same on instances that nothing was tried on.
void pack_twisted_again() {
  constexpr int kFirst = 6000;
  constexpr int kChanges = 4;
  Again with_one;
  Again with_all;
  double making = 0;
  int instances = 0;
  for (char name = 'A'; name <= 'K'; ++name) {
    for (const Twist twist : kTwists) {
      const std::vector<Buffer> buffers = twisted(read_csv(public_instance(name)).buffers, twist, 3);
      const int64_t capacity = capacity_for(buffers);
      const Hints hints = make_hints(buffers, capacity, kOthers);
      if (hints.packings.empty()) continue;
      ++instances;
      making += hints.first_seconds + hints.others_seconds;
      for (int change = kFirst; change < kFirst + kChanges; ++change) {
        const std::vector<Buffer> next = changed(buffers, static_cast<uint64_t>(name + 256 * change), capacity);
        const Timed fresh = from_nothing(next, capacity);
        with_one.add(next, capacity, fresh, std::span(hints.packings).first(1));
        with_all.add(next, capacity, fresh, hints.packings);
      }
    }
  }
  fmt::print("the same, {} changes of {} twisted instances: {} | {:.3f} s: {}\n\n", kChanges, instances,
             with_one.text(), making, with_all.text());
}

void pack_traces() {
  const std::vector<std::filesystem::path> files = recorded_traces();
  if (files.empty()) return;
  std::vector<std::pair<std::string, Again>> rows;
  fmt::print("recorded traces, minimised, 5 s at most\n");
  for (const auto& file : files) {
    const std::string name = file.stem().stem().string();
    const std::vector<Buffer> buffers = blocks_of(trace::read(file));
    const Timed timed = measure(buffers, {.time_limit_s = 5}, 1);
    print_row(name, buffers, timed);
    rows.emplace_back(name, Again{});
    for (uint64_t change = 0; change < 3; ++change) {
      const std::vector<Buffer> next = changed_blocks(buffers, change);
      const int64_t capacity = live_load(next) / 100 * 101;
      rows.back().second.add(next, capacity, from_nothing(next, capacity), {&timed.result.best, 1});
    }
  }
  fmt::print(
      "\nthe same after 1 % of the blocks changed, 3 changes of each, to within 1 % of the bound, processor time\n");
  for (auto& [name, again] : rows) fmt::print("{:<18} {}\n", name, again.text());
  fmt::print("\n");
}

}  // namespace
}  // namespace plimsoll::pack

int main() {
  using namespace plimsoll::pack;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const bool present = std::filesystem::exists(public_instance('A'));
  if (!present) fmt::print("the public instances are not in ../shared/data/pack: left out\n");
  if (present) decide_public_instances();
  if (present) decide_twisted_instances();
  if (present && std::getenv("PLIMSOLL_BENCH_LONG") != nullptr) {
    switch_off_inferences();
    minimise_public_instances();
  }
  pack_training_steps();
  if (present) pack_again();
  if (present) pack_twisted_again();
  pack_traces();
}
