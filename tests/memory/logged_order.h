// A StreamOrder that only writes down what it was asked for.
#pragma once

#include <utility>
#include <vector>

#include "plimsoll/memory/stream.h"

namespace plimsoll {

class LoggedOrder : public StreamOrder {
 public:
  using Waits = std::vector<std::pair<Stream, Stream>>;  // waiter, other

  void wait(Stream waiter, Stream other) override { waits.push_back({waiter, other}); }
  void synchronize() override { ++synchronized; }

  Waits waits;
  int synchronized = 0;
};

}  // namespace plimsoll
