#include "plimsoll/run/eager/record.h"

#include <fmt/format.h>

#include "plimsoll/base/error.h"
#include "plimsoll/run/eager/eviction.h"

namespace plimsoll::eager {

WeakData::WeakData(const Data& data)
    : shape_{data.desc, data.offset}, storage_(data.storage), version_(data ? data.storage->version() : 0) {}

Data WeakData::lock() const {
  Data data = shape_;
  data.storage = storage_.lock();
  return data && data.storage->version() == version_ ? data : Data{};
}

Record::Record(Recorded op, std::vector<Edge> edges, std::span<const Data> operands)
    : op_(std::move(op)), edges_(std::move(edges)) {
  for (const Data& operand : operands) operands_.emplace_back(operand);
}

Record::~Record() {
  if (evictor_) evictor_->remove(*this);
  std::vector<std::shared_ptr<Record>> doomed;
  const auto take = [&](std::vector<Edge>& edges) {
    for (Edge& edge : edges) {
      if (edge.record) doomed.push_back(std::move(edge.record));
    }
  };
  take(edges_);
  while (!doomed.empty()) {
    const std::shared_ptr<Record> record = std::move(doomed.back());
    doomed.pop_back();
    if (record.use_count() == 1) take(record->edges_);
  }
}

void Record::keep(const Recipe& recipe, std::span<const Data> operands, std::span<const Data> results,
                  std::vector<Place> places, double seconds) {
  for (const size_t part : recipe.kept) {
    const Data& data = part < operands.size() ? operands[part] : results[part - operands.size()];
    kept_.push_back({part, data, data.storage->version()});
  }
  for (const Data& result : results) results_.emplace_back(result);
  places_ = std::move(places);
  seconds_ = seconds;
  const bool is_view = !operands.empty() && results[0].storage == operands[0].storage;
  if (is_view && edges_[0].record) seconds_ += edges_[0].record->seconds_;  // its elements are made there
}

Record::Kept* Record::find(size_t part) {
  for (Kept& kept : kept_) {
    if (kept.part == part) return &kept;
  }
  return nullptr;
}

// What is kept of a part and not evicted; nothing otherwise.
Data Record::kept_data(Engine& engine, size_t part) {
  Kept* kept = find(part);
  if (kept == nullptr) return {};
  if (kept->spilled) {
    kept->data.storage = kept->spilled->fetch(engine);
    kept->version = kept->data.storage->version();
    kept->spilled = nullptr;
  }
  return kept->data;
}

Data Record::part(Engine& engine, size_t wanted) {
  kept_data(engine, wanted);
  Kept* kept = find(wanted);
  const std::string& name = op_.def->name;
  if (kept == nullptr) throw ArgumentError(fmt::format("{}: what its gradient reads was not kept", name));
  if (!kept->data) {
    const bool is_operand = wanted < operands_.size();
    kept->data = is_operand ? operand(engine, wanted) : result(engine, wanted - operands_.size());
    kept->version = kept->data.storage->version();
  }
  if (kept->data.storage->version() == kept->version) return kept->data;
  throw ArgumentError(fmt::format("{}: its gradient reads {} {}, which was overwritten since", name,
                                  kept->data.type().text(), wanted < op_.types.size() ? "operand" : "result"));
}

void Record::let_go() {
  kept_.clear();
  held_.clear();
  spent_ = true;
}

Data Record::operand(Engine& engine, size_t i) {
  if (Data data = kept_data(engine, i)) return data;
  if (Data data = operands_[i].lock()) return data;
  if (edges_[i].record) return edges_[i].record->result(engine, edges_[i].output);
  throw ArgumentError(
      fmt::format("{}: operand {} was overwritten before it was computed with again", op_.def->name, i));
}

Data Record::result(Engine& engine, size_t k) {
  if (Data data = kept_data(engine, operands_.size() + k)) return data;
  if (Data data = results_[k].lock()) return data;
  return run_again(engine)[k];
}

// What was kept of the results is there again afterwards.
std::vector<Data> Record::run_again(Engine& engine) {
  std::vector<Data> inputs;
  for (size_t i = 0; i < operands_.size(); ++i) inputs.push_back(operand(engine, i));
  std::vector<Data> results = engine.run({*op_.def, op_.attributes, inputs, places_});
  for (size_t k = 0; k < results.size(); ++k) {
    results_[k] = WeakData(results[k]);
    Kept* kept = find(operands_.size() + k);
    if (kept == nullptr || kept->data) continue;
    kept->data = results[k];
    kept->version = results[k].storage->version();
  }
  return results;
}

Record* Record::maker(size_t part) { return part < operands_.size() ? edges_[part].record.get() : this; }

double Record::seconds_again() const {
  double sum = 0;
  int steps = 64;  // of what is further away the estimate is too low
  std::vector<const Record*> unseen = {this};
  while (!unseen.empty() && steps-- > 0) {
    const Record* record = unseen.back();
    unseen.pop_back();
    sum += record->seconds_;
    for (size_t i = 0; i < record->operands_.size(); ++i) {
      const Record* before = record->edges_[i].record.get();
      if (before != nullptr && !record->operands_[i].lock()) unseen.push_back(before);
    }
  }
  return sum;
}

bool Record::secure() {
  std::vector<Record*> open = {this};
  std::vector<Record*> fresh;
  while (!open.empty()) {
    Record* record = open.back();
    open.pop_back();
    if (record->secured_) continue;
    record->secured_ = true;
    fresh.push_back(record);
    const bool can_run = !record->spent_ && !record->results_.empty();
    if (!can_run || !record->hold_leaves()) {
      for (Record* undone : fresh) undone->unsecure();
      return false;
    }
    for (const Edge& edge : record->edges_) {
      if (edge.record) open.push_back(edge.record.get());
    }
  }
  return true;
}

void Record::unsecure() {
  secured_ = false;
  held_.clear();
}

bool Record::hold_leaves() {
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (edges_[i].record) continue;
    Data leaf = operands_[i].lock();
    if (!leaf) return false;
    leaf.storage->needed_again();
    held_.push_back(std::move(leaf));
  }
  return true;
}

void Record::register_at(std::shared_ptr<Evictor> evictor) {
  evictor_ = std::move(evictor);
  evictor_->add(*this);
}

}  // namespace plimsoll::eager
