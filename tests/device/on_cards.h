// Ranks that are threads of this process, on the cards of the stand-ins (stand_in/).
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "plimsoll/device/cuda/card_ranks.h"
#include "plimsoll/device/device.h"
#include "plimsoll/device/stream_ranks.h"
#include "plimsoll/device/thread_ranks.h"
#include "plimsoll/memory/arena.h"
#include "tests/device/stand_in/nccl.h"
#include "tests/device/stand_in/stand_in.h"

namespace plimsoll::device {

// Puts the stand-ins back, with so many cards, which make graphs.
inline void use_cards(int cards) {
  const StandInSettings settings{.devices = cards, .card_bytes = size_t{1} << 30, .graphs = true, .seed = 7};
  stand_in_reset(&settings);
  stand_in_nccl_reset();
  for (int card = 0; card < cards; ++card) find_device("cuda:" + std::to_string(card));
}

// A rank, its card and a stream of it.
struct OnCard {
  std::shared_ptr<Communicator> ranks;
  Device& card;
  std::unique_ptr<Stream> stream;

  explicit OnCard(const std::shared_ptr<Communicator>& group)
      : card(find_device(card_of_rank(*group, "cuda"))), stream(card.stream()) {
    ranks = join_cards(group, card);
  }
  StreamRanks& on_streams() const { return *ranks->on_streams(); }
};

// Calls f(OnCard&) on a thread for each rank.
inline void run_on_cards(int ranks, const std::function<void(OnCard&)>& f, ThreadRanksOptions options = {}) {
  ThreadRanks(ranks, std::move(options)).run([&](const std::shared_ptr<Communicator>& group) {
    OnCard rank(group);
    f(rank);
  });
}

// Floats in the memory of a card.
class CardFloats {
 public:
  CardFloats(Device& card, const std::vector<float>& values)
      : card_(card),
        count_(values.size()),
        pages_(card.pages(bytes())),
        arena_(*pages_, std::max<int64_t>(4, bytes()), {INT64_MAX, "test"}) {
    write(values);
  }
  std::byte* at(int64_t element = 0) const { return arena_.data() + 4 * element; }
  void write(const std::vector<float>& values) { card_.write(at(), std::as_bytes(std::span(values))); }
  std::vector<float> read() const {
    std::vector<float> values(count_);
    card_.read(std::as_writable_bytes(std::span(values)), at());
    return values;
  }

 private:
  int64_t bytes() const { return 4 * static_cast<int64_t>(count_); }

  Device& card_;
  size_t count_;
  std::unique_ptr<PageSource> pages_;
  Arena arena_;
};

}  // namespace plimsoll::device
