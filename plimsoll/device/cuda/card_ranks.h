// Ranks that have a card each. What they tell each other (plans, losses, counts) goes over the communicator that they
// were started with, in the memory of the host; collectives in the cards' memory are NCCL's (nccl.h), whose id goes
// over that communicator as well.
//
// NCCL's work has a stream of its own: it begins behind an event of the stream that it is put on, and that stream waits
// for another where it is finished. All of it can be captured into a graph.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "plimsoll/device/communicator.h"
#include "plimsoll/device/device.h"

namespace plimsoll::device {

// What is booked for NCCL's buffers at the least: 4 MiB (NCCL_BUFFSIZE) to each of two neighbours in each of 32
// channels, its documented defaults. Not measured on a card yet. Where it takes more as the communicator is made, that
// is booked.
inline constexpr int64_t kNcclBytes = int64_t{256} << 20;

// The name of the card that this rank takes: "cuda" is the one of its place among the ranks of its machine, modulo
// cards; others are as given. UnsupportedError without a driver or card.
std::string card_of_rank(const Communicator& ranks, std::string_view device);

// Makes NCCL's communicator among the cards of all ranks, called by each. cuda::NcclMissing without the library,
// ArgumentError where two ranks have one card, which NCCL refuses, cuda::NcclError for what it says itself. Once in the
// life of a device's users: executors that were bound with it go before it does.
std::shared_ptr<Communicator> join_cards(std::shared_ptr<Communicator> ranks, Device& card);

}  // namespace plimsoll::device
