// Everything that a run keeps from step to step, as tensors of a file: parameters, the model's own state and the
// optimizer's, in the arena or in the spill file, in whatever dtype they are held. Sums of gradients are not among
// them: they are zero between steps. Names and shapes do not depend on the plan, so what one plan wrote another reads.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "plimsoll/models/weights/weights.h"
#include "plimsoll/run/session.h"

namespace plimsoll::train {

// Bytes of a tensor as the file has them, from `offset` on.
using ReadBytes = std::function<void(int64_t offset, std::span<std::byte> into)>;

// Refers to the session, and is good as long as that is. For use between steps.
struct KeptTensor {
  models::StoredSpec spec;  // as in the file: weights of PyTorch's layers that it holds transposed are so here
  ReadBytes read;           // where it is spread over ranks: of this rank's shard alone
  std::function<void(const ReadBytes& stored)> load;  // calls it, with parts of at most kLoadBytes, in order
  bool is_spread = false;                             // over ranks
};
inline constexpr int64_t kLoadBytes = int64_t{1} << 20;

std::vector<KeptTensor> kept_tensors(run::Session& session, const models::ModelInfo& model);

int64_t bytes_of(const std::vector<KeptTensor>& tensors);

}  // namespace plimsoll::train
