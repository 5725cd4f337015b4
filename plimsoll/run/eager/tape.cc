#include "plimsoll/run/eager/tape.h"

#include <fmt/format.h>

#include <map>
#include <unordered_map>

#include "plimsoll/base/error.h"
#include "plimsoll/run/eager/frame.h"

namespace plimsoll::eager {

namespace {

const program::OpDef& add_op() {
  static const program::OpDef& def = program::op_table().get("add");
  return def;
}

const program::OpDef& identity_op() {
  static const program::OpDef& def = program::op_table().get("identity");
  return def;
}

// x + z where x lies when nobody else sees x, else in new memory.
Data sum(Engine& engine, Data x, const Data& z) {
  const Place place{.kind = x.is_sole() ? Place::Kind::in_place : Place::Kind::own};
  const Data inputs[] = {std::move(x), z};
  return engine.run({add_op(), {}, inputs, std::span(&place, 1), Category::gradient})[0];
}

Data copy(Engine& engine, const Data& x) {
  const Place place{.kind = Place::Kind::own};
  return engine.run({identity_op(), {}, std::span(&x, 1), std::span(&place, 1), Category::gradient})[0];
}

// One pass from the root to the leaves, by falling numbers: all ops that read a result come before the one that makes
// it.
class Pass {
 public:
  Pass(Engine& engine, RecipeBook& recipes, const BackwardOptions& options)
      : engine_(engine), recipes_(recipes), options_(options) {}

  void arrive(const Edge& edge, Data gradient) {
    if (edge.leaf) {
      accumulate(gradient_of(edge.leaf), std::move(gradient));
    } else if (edge.record) {
      Pending& pending = pending_[edge.record->number];
      pending.record = edge.record;
      pending.gradients.resize(std::max(pending.gradients.size(), edge.output + 1));
      accumulate(pending.gradients[edge.output], std::move(gradient));
    }
  }

  void run() {
    while (!pending_.empty()) {
      Pending last = std::move(pending_.rbegin()->second);
      pending_.erase(std::prev(pending_.end()));
      visited_.push_back(last.record);
      differentiate(*last.record, std::move(last.gradients));
    }
    deliver();
    for (const auto& record : visited_) record->let_go();
  }

  ~Pass() {
    for (const auto& record : visited_) record->was_read = false;  // matters when the pass failed
  }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

 private:
  struct Pending {
    std::shared_ptr<Record> record;
    std::vector<Data> gradients;  // of the results, up to the last that has one
  };
  struct Leaf {
    std::shared_ptr<TensorState> state;
    Data gradient;
  };

  Data& gradient_of(const std::shared_ptr<TensorState>& leaf) {
    const auto [found, fresh] = place_of_.try_emplace(leaf.get(), leaves_.size());
    if (fresh) leaves_.push_back({leaf, {}});
    return leaves_[found->second].gradient;
  }

  void accumulate(Data& into, Data gradient) {
    into = into ? sum(engine_, std::move(into), gradient) : std::move(gradient);
  }

  void differentiate(Record& record, std::vector<Data> arriving) {
    if (record.is_spent()) {
      throw ArgumentError(fmt::format("{}: its tape was used by an earlier backward pass; compute the loss again",
                                      record.op().def->name));
    }
    const auto recipe = recipe_for(record, arriving);
    Frame frame(engine_, recipe->program, recipe->last_reads, Frame::Placing::dynamic);
    for (const size_t part : recipe->kept) frame.set(recipe->part(part), record.part(engine_, part));
    for (size_t k = 0; k < arriving.size(); ++k) {
      if (recipe->seeds[k]) frame.set(recipe->seeds[k], std::move(arriving[k]));
    }
    arriving.clear();
    if (options_.let_go_early) record.let_go();
    record.was_read = true;
    frame.run(1, Category::gradient);
    for (size_t i = 0; i < recipe->gradients.size(); ++i) {
      if (!recipe->gradients[i]) continue;
      arrive(record.edges()[i], frame.get(recipe->gradients[i]));
    }
  }

  std::shared_ptr<const Recipe> recipe_for(const Record& record, const std::vector<Data>& arriving) {
    const auto all = recipes_.find(record.op());
    std::vector<bool> arrives;
    bool complete = true;
    for (size_t k = 0; k < all->seeds.size(); ++k) {
      arrives.push_back(k < arriving.size() && arriving[k]);
      complete = complete && (arrives.back() || !all->seeds[k]);
    }
    return complete ? all : recipes_.find(record.op(), arrives);
  }

  // First everything that takes memory, then what cannot fail.
  void deliver() {
    for (Leaf& leaf : leaves_) {
      if (!leaf.gradient.is_sole()) leaf.gradient = copy(engine_, leaf.gradient);
    }
    for (Leaf& leaf : leaves_) {
      if (leaf.state->gradient) leaf.gradient = sum(engine_, std::move(leaf.gradient), leaf.state->gradient);
    }
    for (Leaf& leaf : leaves_) leaf.state->gradient = std::move(leaf.gradient);
  }

  Engine& engine_;
  RecipeBook& recipes_;
  BackwardOptions options_;
  std::map<uint64_t, Pending> pending_;  // by the record's number
  std::vector<Leaf> leaves_;             // in the order in which gradients arrive
  std::unordered_map<TensorState*, size_t> place_of_;
  std::vector<std::shared_ptr<Record>> visited_;
};

}  // namespace

void backward(Engine& engine, RecipeBook& recipes, const std::shared_ptr<TensorState>& root, Data seed,
              const BackwardOptions& options) {
  Pass pass(engine, recipes, options);
  pass.arrive({root->record, root->output, root->record ? nullptr : root}, std::move(seed));
  pass.run();
}

}  // namespace plimsoll::eager
