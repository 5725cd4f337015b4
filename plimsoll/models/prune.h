// Structured pruning: whole channels of convolutions and features of linear layers go, with everything along them, so
// that a model has fewer bytes and less to compute.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plimsoll/base/shape.h"
#include "plimsoll/models/zoo/zoo.h"

namespace plimsoll::models {

// Channels that stay or go together: what a layer produces, and where layers are added, what all of them do.
struct ChannelGroup {
  // A parameter, or a statistic that is kept, with the channels along a dimension: channel c has the places from
  // c * repeat on, `repeat` of them (a flattened image has as many as pixels).
  struct Along {
    std::string name;
    int axis = 0;
    int64_t repeat = 1;
    bool produces = false;  // the weights whose rows make the channels

    bool operator==(const Along&) const = default;
  };

  int64_t channels = 0;
  std::vector<Along> along;
};

// Of an inference, those whose channels may go: neither what comes in or out of the model nor what an op reads that
// does not keep channels apart (concatenations, attention, normalisations of layers).
std::vector<ChannelGroup> find_channel_groups(const program::Program& inference);

using ParameterShapes = std::map<std::string, Shape, std::less<>>;

// The program with parameters and state of these shapes, in place of those that it has: what ops make of them is
// inferred anew. ArgumentError names the first op for which that makes no sense.
program::Program with_parameter_shapes(program::Program program, const ParameterShapes& shapes);

}  // namespace plimsoll::models
