#include "plimsoll/train/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <limits>

#include "plimsoll/base/error.h"
#include "plimsoll/device/stream_ranks.h"
#include "plimsoll/program/op.h"
#include "plimsoll/program/ops/collective.h"

namespace plimsoll::train {
namespace {

struct KnownLink {
  std::string_view name;
  double latency_s;
  double bytes_per_s;
};

constexpr double kEthernetLatency = 30e-6;
// Latencies of MPI between two machines; rates that large messages reach.
constexpr std::array<KnownLink, 5> kLinks = {{{"10GbE", kEthernetLatency, 1.1e9},
                                              {"25GbE", kEthernetLatency, 2.8e9},
                                              {"100GbE", 15e-6, 11e9},
                                              {"IB", 2e-6, 23e9},
                                              {"NVLink", 5e-6, 300e9}}};

double log2_up(int64_t ranks) { return std::bit_width(static_cast<uint64_t>(ranks - 1)); }

double seconds_of(const program::Program& program, const program::Op& op, const Link& link) {
  const int64_t ranks = program::OwnedOpCall(program, op)->integer("ranks");
  const auto bytes = static_cast<double>(program::collective_bytes(program, op));
  const double sent = bytes * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  return program::collective_passes(op) * (log2_up(ranks) * link.latency_s + sent / link.bytes_per_s);
}

// Of the fastest of a few sums of so many floats.
double seconds_of_sum(device::Communicator& ranks, size_t floats) {
  if (device::StreamRanks* cards = ranks.on_streams()) return cards->seconds_of_sum(static_cast<int64_t>(floats));
  constexpr int kTries = 5;
  std::vector<float> data(floats);
  double least = std::numeric_limits<double>::max();
  for (int i = 0; i < kTries; ++i) {
    std::fill(data.begin(), data.end(), 0.0F);
    ranks.barrier();
    const auto start = std::chrono::steady_clock::now();
    ranks.all_reduce(DType::f32, reinterpret_cast<std::byte*>(data.data()), static_cast<int64_t>(data.size()));
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return least;
}

}  // namespace

Link parse_link(std::string_view text) {
  for (const KnownLink& known : kLinks) {
    if (text == known.name) return {std::string(text), known.latency_s, known.bytes_per_s};
  }
  const auto refuse = [&] {
    throw ArgumentError(fmt::format(
        "--link is {}, expected 10GbE, 25GbE, 100GbE, IB, NVLink, or a rate like 1.2GB/s or 5Gbit/s", quote(text)));
  };
  double rate = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (error != std::errc() || rate <= 0 || rate > 1e6) refuse();
  const double scale = unit == "GB/s" ? 1e9 : unit == "MB/s" ? 1e6 : unit == "Gbit/s" ? 1e9 / 8 : 0;
  if (scale == 0) refuse();
  return {std::string(text), kEthernetLatency, rate * scale};
}

Link measure_link(device::Communicator& ranks) {
  constexpr size_t kMany = size_t{1} << 18;
  const double latency = seconds_of_sum(ranks, 1);
  const double rest = std::max(seconds_of_sum(ranks, kMany) - latency, 1e-9);
  const double sent = 2.0 * static_cast<double>(ranks.ranks() - 1) / ranks.ranks() * kMany * sizeof(float);
  return {"measured", latency / (2 * log2_up(ranks.ranks())), sent / rest};
}

double communication_s(const program::Program& program, const Link& link) {
  double sum = 0;
  for (const program::Op& op : program.ops) {
    if (program::is_collective(*op.def)) sum += seconds_of(program, op, link);
  }
  return sum;
}

std::vector<double> waits_of(const program::Program& program, const std::vector<double>& seconds, const Link& link) {
  std::vector<double> waits(program.ops.size(), 0.0);
  std::vector<double> done(program.values.size(), 0.0);  // by storage of what is under way
  double now = 0;
  double link_is_free = 0;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const program::Op& op = program.ops[i];
    if (program::is_collective(*op.def)) {
      link_is_free = std::max(now, link_is_free) + seconds_of(program, op, link);
      double& ready = done[static_cast<size_t>(program[op.outputs[0]].storage.index)];
      ready = link_is_free;
      if (!program::starts_collective(*op.def)) waits[i] = link_is_free - now;
    } else if (op.def->name == "collective_finish") {
      waits[i] = std::max(0.0, done[static_cast<size_t>(program[op.inputs[0]].storage.index)] - now);
    } else {
      now += seconds[i];
    }
    now += waits[i];
  }
  return waits;
}

}  // namespace plimsoll::train
