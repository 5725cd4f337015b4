// What a link between ranks costs in time, by a model of two numbers: the latency of a message and a rate
// (docs/ranks.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/device/communicator.h"
#include "plimsoll/program/program.h"

namespace plimsoll::train {

struct Link {
  std::string name;
  double latency_s = 0;    // of one message
  double bytes_per_s = 0;  // that a rank sends while it receives as many
};

// "10GbE", "25GbE", "100GbE", "IB" (HDR), "NVLink", or a rate with the latency of Ethernet: "1.2GB/s", "5Gbit/s".
// ArgumentError for others.
Link parse_link(std::string_view text);

// As sums of few and of many bytes over these ranks go now; all of them call it. Of rank 0.
Link measure_link(device::Communicator& ranks);

// Of the collectives of one run of a program, one after the other: sums by halving and doubling, 2 log2(n) messages and
// 2 (n - 1) / n of the bytes; scatters and gathers half of that.
double communication_s(const program::Program& program, const Link& link);

// How long the step waits in each op for other ranks, where the ops that need none take so long: what goes on while
// others run is waited for only as far as it is not done.
std::vector<double> waits_of(const program::Program& program, const std::vector<double>& seconds, const Link& link);

}  // namespace plimsoll::train
