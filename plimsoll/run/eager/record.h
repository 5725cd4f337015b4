// What is remembered of an op so that its gradient can be computed: what the gradient reads, and where operands came
// from. Results hold their Record and a Record those of its operands; there is no list of all of them, so the tape of a
// result is gone when the result is.
//
// What a Record keeps may be evicted when memory is short (eviction.h): it is computed again, by the same kernels from
// the same operands and so to the same bits, when it is read; or it is in a file until then.
#pragma once

#include "plimsoll/run/eager/engine.h"
#include "plimsoll/run/eager/recipe.h"
#include "plimsoll/run/eager/spill_store.h"

namespace plimsoll::eager {

class Evictor;
class Record;

// What all handles of one tensor share.
struct TensorState {
  Data data;
  bool requires_grad = false;
  std::shared_ptr<Record> record = nullptr;  // of the op that made it; nothing for a leaf
  size_t output = 0;                         // which of its results
  Data gradient = {};                        // of a leaf
};

// Where an operand came from and its gradient goes: result `output` of an op, a leaf, or nowhere.
struct Edge {
  std::shared_ptr<Record> record;
  size_t output = 0;
  std::shared_ptr<TensorState> leaf;
};

// Data that is there as long as others hold it and nobody overwrites it.
class WeakData {
 public:
  WeakData() = default;
  explicit WeakData(const Data& data);
  Data lock() const;  // nothing when it is gone

 private:
  Data shape_;  // without storage
  std::weak_ptr<Storage> storage_;
  int64_t version_ = 0;
};

class Record {
 public:
  Record(Recorded op, std::vector<Edge> edges, std::span<const Data> operands);
  ~Record();  // without recursion: tapes may be long
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  // The op has run and `recipe` says what its gradient will read. `places` are where its results were put.
  void keep(const Recipe& recipe, std::span<const Data> operands, std::span<const Data> results,
            std::vector<Place> places, double seconds);
  // What was kept, computed again if it was evicted. ArgumentError when it was overwritten since, or let go.
  Data part(Engine& engine, size_t wanted);
  // Keeps nothing any more.
  void let_go();
  bool is_spent() const { return spent_; }

  uint64_t number = 0;    // larger than that of any op before
  bool was_read = false;  // by a backward pass, which needs it again only if it fails
  const Recorded& op() const { return op_; }
  const std::vector<Edge>& edges() const { return edges_; }

  // For eviction.
  struct Kept {
    size_t part;  // as in Recipe
    Data data;    // without storage: evicted
    int64_t version;
    std::shared_ptr<SpilledBlock> spilled = nullptr;  // in place of the storage
  };
  std::vector<Kept>& kept() { return kept_; }
  Record* maker(size_t part);  // the op that makes a part; nullptr for a leaf
  double seconds() const { return seconds_; }
  double seconds_again() const;  // to run it again, with all that must be run again before it
  // Makes sure that the op can be run again whatever becomes of handles: holds on to all leaves behind it. False when
  // that is too late.
  bool secure();
  void unsecure();
  void register_at(std::shared_ptr<Evictor> evictor);

 private:
  Kept* find(size_t part);
  Data kept_data(Engine& engine, size_t part);
  Data operand(Engine& engine, size_t i);
  Data result(Engine& engine, size_t k);
  std::vector<Data> run_again(Engine& engine);
  bool hold_leaves();

  Recorded op_;
  std::vector<Edge> edges_;  // for each operand
  std::vector<Kept> kept_;
  bool spent_ = false;

  std::vector<WeakData> operands_;
  std::vector<WeakData> results_;
  std::vector<Place> places_;
  std::vector<Data> held_;  // operands that are leaves, once secured
  bool secured_ = false;
  double seconds_ = 0;
  std::shared_ptr<Evictor> evictor_;
};

}  // namespace plimsoll::eager
