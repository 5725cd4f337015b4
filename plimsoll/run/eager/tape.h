// What is remembered of ops so that gradients can be computed: a Record for each, which its results hold and which
// holds what its gradient reads and the Records of its operands. There is no list of all of them: the tape of a result
// is gone when the result is.
#pragma once

#include "plimsoll/run/eager/engine.h"
#include "plimsoll/run/eager/recipe.h"

namespace plimsoll::eager {

class Record;

// What all handles of one tensor share.
struct TensorState {
  Data data;
  bool requires_grad = false;
  std::shared_ptr<Record> record = nullptr;  // of the op that made it; nothing for a leaf
  size_t output = 0;                         // which of its results
  Data gradient = {};                        // of a leaf
};

// Where the gradient of an operand goes: to result `output` of an op, to a leaf, or nowhere.
struct Edge {
  std::shared_ptr<Record> record;
  size_t output = 0;
  std::shared_ptr<TensorState> leaf;
};

class Record {
 public:
  Record(Recorded op, std::vector<Edge> edges) : op_(std::move(op)), edges_(std::move(edges)) {}
  ~Record();  // without recursion: tapes may be long
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  // What the gradient will read, of operands and results.
  void keep(const Recipe& recipe, std::span<const Data> operands, std::span<const Data> results);
  // The part as it was kept. ArgumentError when it was overwritten since, or let go.
  const Data& part(size_t wanted) const;
  void let_go();
  bool is_spent() const { return spent_; }

  uint64_t number = 0;  // larger than that of any op before
  const Recorded& op() const { return op_; }
  const std::vector<Edge>& edges() const { return edges_; }

 private:
  struct Kept {
    size_t part;
    Data data;
    int64_t version;
  };

  Recorded op_;
  std::vector<Edge> edges_;  // for each operand
  std::vector<Kept> kept_;
  bool spent_ = false;
};

struct BackwardOptions {
  // Lets go of what the tape keeps as soon as it is read, so the peak is lower. When memory runs out nevertheless,
  // tensors and gradients are as before, but the tape is spent.
  bool let_go_early = false;
};

// Adds the gradient of sum(root * seed) to all leaves that it depends on, and lets go of the tape. When it fails
// nothing has changed (but see let_go_early).
void backward(Engine& engine, RecipeBook& recipes, const std::shared_ptr<TensorState>& root, Data seed,
              const BackwardOptions& options);

}  // namespace plimsoll::eager
