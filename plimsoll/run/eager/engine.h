// Runs single ops on Data: the same shape rules, memory facts and kernels as programs have, in blocks of a pool instead
// of a plan's arena. Kernels are prepared once for each op, attributes, shapes and strides, and kept.
//
// Not thread-safe. An op that fails, for want of memory or because its operands make no sense, changes nothing.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "plimsoll/kernels/prepare.h"
#include "plimsoll/run/eager/data.h"

namespace plimsoll::eager {

struct EngineOptions {
  kernels::DeviceOptions device = {};
  // Asks the pool for a block; nothing: Pool::allocate. Where tests put refusals.
  std::function<Block(Pool&, const Request&)> allocate = nullptr;
};

// Where a result is to be.
struct Place {
  enum class Kind : uint8_t {
    automatic,  // a view or a storage of its own, as the op's definition says
    absent,     // an optional result that nobody asked for
    own,        // in a storage of its own, even where it could be a view
    in_place,   // in the storage of `operand`, which the definition names under in_place and Data::is_sole
  };
  Kind kind = Kind::automatic;
  int operand = 0;
  std::optional<kernels::TensorDesc> desc = {};  // of an own result; nothing: row-major
};

// One use of an op.
struct EagerCall {
  const program::OpDef& def;
  std::span<const program::Attribute> attributes;  // one for each of the definition's schema
  std::span<const Data> inputs;
  std::span<const Place> places = {};  // for each result; nothing: automatic, optional ones absent
  Category category = Category::activation;
};

class Engine {
 public:
  // The pool must outlive the engine and all Data. ArgumentError for a thread count that makes no sense,
  // UnsupportedError for a device that was not built.
  Engine(Pool& pool, EngineOptions options);

  // The results, one for each of the definition; nothing where absent. ArgumentError from the op's rules and kernels,
  // UnsupportedError for what the device cannot do, ResourceExhausted that names the op.
  std::vector<Data> run(const EagerCall& use);

  // Memory of this type in row-major order, as it comes. `op` and `name` are for reports.
  Data allocate(const TensorSpec& spec, Category category, std::string_view name, std::string_view op = {});

  Pool& pool() const { return pool_; }
  int64_t prepared() const { return prepared_count_; }   // kernels ever prepared
  double last_seconds() const { return last_seconds_; }  // that the last op computed

 private:
  struct Result {
    bool made = false;  // the kernel writes it
    int shares = -1;    // the operand whose storage it lies in; -1: its own
    bool absent = false;
    kernels::TensorDesc desc;
    int64_t offset = 0;  // after that operand's first element
  };
  struct Prepared {
    std::vector<Result> results;
    kernels::Kernel kernel;
  };

  std::shared_ptr<const Prepared> prepared_for(const EagerCall& use);
  Prepared prepare(const EagerCall& use) const;
  static Result place_result(const EagerCall& use, const program::OpCall& call, size_t k);
  Data make(const Result& result, const EagerCall& use);
  void compute(const Prepared& prepared, const EagerCall& use, const std::vector<Data>& results);
  std::shared_ptr<Storage> take(const Request& request);

  static constexpr size_t kMostPrepared = 4096;  // then all are forgotten: shapes that change in every step

  Pool& pool_;
  EngineOptions options_;
  int threads_;
  std::unordered_map<std::string, std::shared_ptr<const Prepared>> cache_;
  int64_t prepared_count_ = 0;
  double last_seconds_ = 0;
};

}  // namespace plimsoll::eager
