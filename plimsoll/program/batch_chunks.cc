#include "plimsoll/program/batch_chunks.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/program/builder.h"
#include "plimsoll/program/ops/constant.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/reduce.h"
#include "plimsoll/program/ops/slice.h"
#include "plimsoll/program/split_step.h"

namespace plimsoll::program {
namespace {

int64_t bytes_of_sample(const Program& model, Value value) {
  return model[value].type.bytes().bind({{"batch", 1}}).constant();
}

bool can_chunk(const Program& model, const Op& op) {
  const auto reads_across = [&](Value input) {
    return depends_on_batch(model[input].type) && !is_batch_first(model[input].type);
  };
  return !op.def->traits.draws && op.def->overwrites.empty() && !why_op_mixes_samples(model, op) &&
         std::none_of(op.inputs.begin(), op.inputs.end(), reads_across);
}

// Where ops before and after a place have to do with each other.
class Crossings {
 public:
  explicit Crossings(const Program& model) : last_reader_(model.values.size(), -1), makers_(producers(model)) {
    for (size_t op = 0; op < model.ops.size(); ++op) {
      for (const Value input : model.ops[op].inputs) {
        last_reader_[static_cast<size_t>(input.index)] = static_cast<int32_t>(op);
      }
    }
    for (size_t i = 0; i < model.values.size(); ++i) {
      const Value value{static_cast<int32_t>(i)};
      if (makers_[i] >= 0 && depends_on_batch(model[value].type)) on_batch_.push_back(value);
    }
  }

  // Results on the batch that ops before `place` make and later ones read.
  std::vector<Value> at(int32_t place) const {
    std::vector<Value> crossing;
    for (const Value value : on_batch_) {
      const auto i = static_cast<size_t>(value.index);
      if (makers_[i] < place && last_reader_[i] >= place) crossing.push_back(value);
    }
    return crossing;
  }

 private:
  std::vector<int32_t> last_reader_;
  std::vector<int32_t> makers_;
  std::vector<Value> on_batch_;
};

// Goes from the first op on, or from the last, and finds where less goes across than was made, and no more than at any
// such place before.
class Narrows {
 public:
  explicit Narrows(const Program& model) : model_(model), crossings_(model) {}

  // With this op on the chunked side.
  bool narrows(int32_t op, int32_t place) {
    for (const Value output : model_.ops[static_cast<size_t>(op)].outputs) {
      if (output) largest_ = std::max(largest_, bytes_of_sample(model_, output));
    }
    const std::vector<Value> crossing = crossings_.at(place);
    if (crossing.size() != 1) return false;
    const int64_t bytes = bytes_of_sample(model_, crossing[0]);
    if (bytes >= largest_ || bytes > narrowest_) return false;
    narrowest_ = bytes;
    return true;
  }

 private:
  const Program& model_;
  Crossings crossings_;
  int64_t largest_ = 0;
  int64_t narrowest_ = INT64_MAX;
};

// Adds up the losses of chunks; a mean is then divided by what the whole batch's is over.
class LossSum {
 public:
  LossSum(Builder& b, const Program& model, const Op& op)
      : b_(b), call_(model, op), ignored_(op.def->traits.loss->ignored) {}

  std::vector<NamedAttribute> attributes_of_chunk(std::vector<NamedAttribute> attributes) const {
    for (auto& [name, value] : attributes) {
      if (name == "reduction") value = Attribute(std::string("sum"));
    }
    return attributes;
  }

  void add_chunk(Value loss) { sum_ = sum_ ? add(b_, sum_, loss) : loss; }

  Value finish(Value targets) {
    if (call_->word("reduction") == "sum") return sum_;
    if (ignored_.empty()) return affine(b_, sum_, {.divisor = b_.shape(targets).elements()});
    const Value ignored = fill(b_, static_cast<double>(call_->integer(ignored_)), {b_.type(targets).dtype, {}});
    const Value counted = sum(b_, cast(b_, ne(b_, targets, ignored), b_.type(sum_).dtype));
    return div(b_, sum_, counted);
  }

 private:
  Builder& b_;
  OwnedOpCall call_;
  std::string ignored_;  // the attribute; empty: none is
  Value sum_;
};

// Writes the model anew, op by op.
class Chunker {
 public:
  Chunker(const Program& model, Value loss, const StepForm& form, int64_t batch)
      : model_(model),
        loss_(loss),
        form_(form),
        whole_{{"batch", batch}},
        chunk_{{"batch", batch / form.chunks}},
        here_(model.values.size()),
        chunked_(model.values.size()) {}

  ChunkedModel run() && {
    copy_sources();
    const auto first = static_cast<size_t>(form_.first);
    const size_t last = model_.ops.size() - static_cast<size_t>(form_.last);
    chunk_ops(0, first);
    join(first);
    for (size_t op = first; op < last; ++op) map_outputs(op, here_, emit(op, whole_, inputs_of(model_.ops[op])));
    const Value loss = form_.last > 0 ? chunk_to_loss(last) : here(loss_);
    b_.rename(loss, model_[loss_].name);
    b_.output(loss);
    return {std::move(b_).finish(), loss};
  }

 private:
  Value here(Value value) const { return here_[static_cast<size_t>(value.index)]; }

  void copy_sources() {
    const auto copy = [&](Value value, auto add) {
      ValueInfo info = model_[value];
      info.type.shape = info.type.shape.bind(whole_);
      here_[static_cast<size_t>(value.index)] = (b_.*add)(info.name, info.type, info.category);
    };
    for (const Value value : model_.inputs) copy(value, &Builder::input);
    for (const Value value : model_.parameters) copy(value, &Builder::parameter);
    for (const Value value : model_.state) copy(value, &Builder::state);
  }

  std::vector<Value> inputs_of(const Op& op) const {
    std::vector<Value> inputs;
    for (const Value input : op.inputs) inputs.push_back(here(input));
    return inputs;
  }

  std::vector<NamedAttribute> attributes_of(const Op& op, const Bindings& sizes) const {
    std::vector<NamedAttribute> named;
    for (size_t i = 0; i < op.attributes.size(); ++i) {
      named.emplace_back(op.def->attributes[i].name, op.attributes[i].bind(sizes));
    }
    return named;
  }

  // The results, in the model's order.
  std::vector<Value> emit(size_t place, const Bindings& sizes, std::span<const Value> inputs) {
    const Op& op = model_.ops[place];
    return emit(place, inputs, attributes_of(op, sizes));
  }

  std::vector<Value> emit(size_t place, std::span<const Value> inputs, std::span<const NamedAttribute> attributes) {
    const Op& op = model_.ops[place];
    b_.set_phase(op.phase);
    b_.emit(op.def->name, inputs, attributes, model_[op.outputs[0]].name);
    const size_t made = b_.program().ops.size() - 1;
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      if (op.outputs[k] && op.def->is_optional_output(k)) b_.optional_output(made, k);
    }
    return b_.program().ops[made].outputs;
  }

  void map_outputs(size_t place, std::vector<Value>& map, const std::vector<Value>& made) {
    const Op& op = model_.ops[place];
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      if (op.outputs[k]) map[static_cast<size_t>(op.outputs[k].index)] = made[k];
    }
  }

  // Has nothing to do with the batch, so once is enough.
  bool is_shared(const Op& op) const {
    const auto on_batch = [&](Value value) { return value && depends_on_batch(model_[value].type); };
    return std::none_of(op.inputs.begin(), op.inputs.end(), on_batch) &&
           std::none_of(op.outputs.begin(), op.outputs.end(), on_batch);
  }

  std::vector<Value> inputs_of_chunk(const Op& op, size_t chunk) {
    std::vector<Value> inputs;
    for (const Value input : op.inputs) {
      inputs.push_back(depends_on_batch(model_[input].type) ? chunks_of(input)[chunk] : here(input));
    }
    return inputs;
  }

  // Those of a value that was made whole are views.
  std::vector<Value>& chunks_of(Value value) {
    std::vector<Value>& chunks = chunked_[static_cast<size_t>(value.index)];
    if (chunks.empty()) chunks = split(b_, here(value), 0, static_cast<int>(form_.chunks));
    return chunks;
  }

  void chunk_ops(size_t begin, size_t end) {
    for (size_t chunk = 0; chunk < static_cast<size_t>(form_.chunks); ++chunk) {
      for (size_t op = begin; op < end; ++op) emit_chunk(op, chunk);
    }
  }

  void emit_chunk(size_t place, size_t chunk) {
    const Op& op = model_.ops[place];
    if (is_shared(op)) {
      if (chunk == 0) map_outputs(place, here_, emit(place, whole_, inputs_of(op)));
      return;
    }
    const std::vector<Value> made = emit(place, chunk_, inputs_of_chunk(op, chunk));
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      if (op.outputs[k]) chunked_[static_cast<size_t>(op.outputs[k].index)].push_back(made[k]);
    }
  }

  // What later ops read of the first ones.
  void join(size_t place) {
    for (const Value value : Crossings(model_).at(static_cast<int32_t>(place))) {
      here_[static_cast<size_t>(value.index)] = concat(b_, chunked_[static_cast<size_t>(value.index)], 0);
      chunked_[static_cast<size_t>(value.index)].clear();
    }
  }

  Value chunk_to_loss(size_t begin) {
    const size_t end = model_.ops.size() - 1;
    const Op& op = model_.ops[end];
    LossSum loss(b_, model_, op);
    const auto attributes = loss.attributes_of_chunk(attributes_of(op, chunk_));
    for (size_t chunk = 0; chunk < static_cast<size_t>(form_.chunks); ++chunk) {
      for (size_t place = begin; place < end; ++place) emit_chunk(place, chunk);
      loss.add_chunk(emit(end, inputs_of_chunk(op, chunk), attributes)[0]);
    }
    return loss.finish(here(op.inputs[static_cast<size_t>(op.def->traits.loss->targets)]));
  }

  const Program& model_;
  Value loss_;
  StepForm form_;
  Bindings whole_;
  Bindings chunk_;
  Builder b_;
  std::vector<Value> here_;                  // of values that are whole
  std::vector<std::vector<Value>> chunked_;  // of others, their chunks
};

void check_chunks(const Program& model, Value loss, const StepForm& form, int64_t batch) {
  const ChunkPlaces places = find_chunk_places(model, loss);
  const auto is_place = [](const std::vector<int32_t>& known, int32_t place) {
    return place == 0 || std::find(known.begin(), known.end(), place) != known.end();
  };
  if (!is_place(places.first, form.first) || !is_place(places.last, form.last) || form.first + form.last > places.ops) {
    throw ArgumentError(fmt::format("the first {} and last {} of {} ops cannot take the batch in chunks", form.first,
                                    form.last, model.ops.size()));
  }
  if (form.chunks < 1 || batch % form.chunks != 0) {
    throw ArgumentError(fmt::format("a batch of {} cannot be cut into {} chunks of one size", batch, form.chunks));
  }
}

}  // namespace

ChunkPlaces find_chunk_places(const Program& model, Value loss) {
  const auto ops = static_cast<int32_t>(model.ops.size());
  ChunkPlaces places{.ops = ops};
  Narrows before(model);
  for (int32_t op = 0; op < ops && can_chunk(model, model.ops[static_cast<size_t>(op)]); ++op) {
    if (before.narrows(op, op + 1)) places.first.push_back(op + 1);
  }
  if (why_loss_is_no_mean(model, loss) || producers(model)[static_cast<size_t>(loss.index)] != ops - 1) return places;
  Narrows after(model);
  for (int32_t op = ops - 2; op >= 0 && can_chunk(model, model.ops[static_cast<size_t>(op)]); --op) {
    if (after.narrows(op, op)) places.last.push_back(ops - op);
  }
  return places;
}

ChunkedModel chunk_batch(const Program& model, Value loss, const StepForm& form, int64_t batch) {
  check_chunks(model, loss, form, batch);
  return Chunker(model, loss, form, batch).run();
}

}  // namespace plimsoll::program
