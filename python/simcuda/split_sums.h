// Workspaces of cuDNN's Hopper convolutions that split sums over multiprocessors. cuDNN takes the number of parts from
// the device itself, which is not there: it then counts with 18 multiprocessors. These functions follow what PyTorch
// asks of cuDNN's graph API and give the bytes that the real number adds.
//
// The rule was learnt from workspaces that an H200 gave (docs/pytorch.md), for engines of cuDNN 9: an output of T tiles
// on S multiprocessors leaves T mod S tiles for the last wave; each of these is computed by S / (T mod S) of them,
// which write their parts to the workspace. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>

namespace plimsoll::simcuda {

using Descriptor = void*;

// Values that were set on a descriptor: dimensions, and the descriptors that it is made of.
void note_attribute(Descriptor descriptor, int name, int type, int64_t count, const void* values);
// Configurations that heuristics gave.
void note_configurations(Descriptor heuristics, int64_t count, const Descriptor* configurations);
void forget_descriptor(Descriptor descriptor);

struct EngineChoice {
  int64_t engine = -1;
  int64_t tile = -1;
  int64_t kernel = -1;  // 0: may split
  int64_t cluster_rows = 1;
  int64_t cluster_columns = 1;
};

// To be added to the workspace that cuDNN tells for a plan; 0 for what is no such convolution. `choose` reads the
// choice of a configuration.
int64_t missing_workspace(Descriptor plan, int64_t workspace, int multiprocessors,
                          const std::function<EngineChoice(Descriptor configuration)>& choose);

}  // namespace plimsoll::simcuda
