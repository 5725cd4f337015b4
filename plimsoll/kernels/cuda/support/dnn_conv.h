// Convolutions by cuDNN: whether it can compute one, and in how much workspace. On a card by the library's own
// proposals, on a card on paper by what was recorded of that card.
#pragma once

#include <memory>

#include "plimsoll/kernels/cuda/support/planes.h"

namespace plimsoll::kernels::cuda {

// One convolution y = x * w and its three sides, whichever of them is computed. x and y are row-major or with channels
// last, both alike for the library; w is then [outputs, window, inputs].
struct ConvSides {
  TensorDesc x, w, y;
  WindowLengths window;
  int64_t groups;
};

enum class Direction : uint8_t { forward, data, weights };

class DnnConv {
 public:
  // Takes the first of the library's proposals that gives the same bits in every run, computes as precisely as is
  // asked for and needs no more workspace.
  DnnConv(const ConvSides& sides, Direction direction, int64_t most_workspace);

  bool is_possible() const { return workspace_bytes_ >= 0; }
  int64_t workspace_bytes() const { return workspace_bytes_; }

  // With the sides at these addresses.
  Task bind(std::byte* x, std::byte* w, std::byte* y, std::byte* workspace) const;

  class Graph;

 private:
  std::shared_ptr<Graph> graph_;  // null on paper
  int64_t workspace_bytes_ = -1;  // it cannot
};

}  // namespace plimsoll::kernels::cuda
