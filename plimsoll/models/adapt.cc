#include "plimsoll/models/adapt.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "plimsoll/base/error.h"
#include "plimsoll/program/ops/elementwise_binary.h"
#include "plimsoll/program/ops/elementwise_unary.h"
#include "plimsoll/program/ops/linear.h"
#include "plimsoll/program/passes/dead_code.h"

namespace plimsoll::models {
namespace {

using program::Op;
using program::Program;

// Everything that reads or shows `old` from op `first` on reads or shows `now`.
void replace_value(Program& program, Value old, Value now, const std::set<size_t>& but_ops) {
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (but_ops.contains(i)) continue;
    std::replace(program.ops[i].inputs.begin(), program.ops[i].inputs.end(), old, now);
  }
  std::replace(program.outputs.begin(), program.outputs.end(), old, now);
  for (program::ValueInfo& info : program.values) {
    if (info.storage == old && &info != &program[old]) info.storage = now;
  }
}

// A weight that is held in the precision of the activations needs no cast.
void hold_in_lower_precision(Program& program, Value weight) {
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (op.def->name != "cast" || op.inputs[0] != weight || !is_floating(program[op.outputs[0]].type.dtype)) continue;
    const Value copy = op.outputs[0];
    for (const Op& other : program.ops) {
      const bool reads = std::find(other.inputs.begin(), other.inputs.end(), weight) != other.inputs.end();
      if (reads && &other != &op) return;  // somebody wants it as it is
    }
    program[weight].type = program[copy].type;
    program.ops.erase(program.ops.begin() + static_cast<std::ptrdiff_t>(i));
    return replace_value(program, copy, weight, {});
  }
}

void require_matches(const Program& program, const std::vector<std::string>& patterns, std::string_view option) {
  for (const std::string& pattern : patterns) {
    const bool any = std::any_of(program.parameters.begin(), program.parameters.end(),
                                 [&](Value value) { return matches(pattern, program[value].name); });
    if (!any) throw ArgumentError(fmt::format("{} {}: no parameter has such a name", option, quote(pattern)));
  }
}

bool matches_any(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& one) { return matches(one, name); });
}

template <class F>
void freeze(Model& model, const F& is_frozen) {
  Program& program = model.program;
  std::vector<Value> trained;
  std::vector<Init> inits;
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const Value value = program.parameters[i];
    if (!is_frozen(program[value].name)) {
      trained.push_back(value);
      inits.push_back(model.inits[i]);
      continue;
    }
    program.state.push_back(value);
    model.state_inits.push_back(model.inits[i]);
  }
  const std::vector<Value> all = program.parameters;
  program.parameters = std::move(trained);
  model.inits = std::move(inits);
  for (const Value value : all) {
    if (is_frozen(program[value].name)) hold_in_lower_precision(program, value);
  }
  program = program::eliminate_dead_code(std::move(program));  // copies that nobody casts any more
  model.result = model.loss = program.outputs.front();
}

// What is there starts as it would without adapters, wherever it is moved to.
void keep_streams(Model& model) {
  uint64_t stream = 0;
  for (std::vector<Init>* inits : {&model.inits, &model.state_inits}) {
    for (Init& init : *inits) init.stream = init.stream.value_or(stream++);
  }
}

// The parameter that a linear layer reads, seen through a cast.
struct Layer {
  size_t op;
  Value weight;
  bool rows;  // a row for each output, as linear has it; else a column
};

std::vector<Layer> layers_of(const Program& program) {
  const std::vector<int32_t> makers = program::producers(program);
  const std::set<int32_t> parameters = [&] {
    std::set<int32_t> found;
    for (const Value value : program.parameters) found.insert(value.index);
    return found;
  }();
  const auto root = [&](Value value) {
    const int32_t produced_by = makers[static_cast<size_t>(value.index)];
    if (produced_by < 0) return value;
    const Op& op = program.ops[static_cast<size_t>(produced_by)];
    return op.def->name == "cast" ? op.inputs[0] : value;
  };
  std::vector<Layer> layers;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    const bool is_linear = op.def->name == "linear";
    if (!is_linear && op.def->name != "matmul") continue;
    const Value weight = root(op.inputs[1]);
    if (!parameters.contains(weight.index) || program[weight].type.shape.rank() != 2) continue;
    if (is_linear) layers.push_back({i, weight, true});
    if (is_linear) continue;
    const auto flag = [&](std::string_view name) {
      for (size_t k = 0; k < op.def->attributes.size(); ++k) {
        if (op.def->attributes[k].name == name) return op.attributes[k].flag();
      }
      return false;
    };
    if (!flag("transpose_a")) layers.push_back({i, weight, flag("transpose_b")});
  }
  return layers;
}

void add_adapters(Model& model, const Lora& lora, const std::vector<Layer>& layers) {
  const size_t written = model.program.ops.size();
  Builder b(std::move(model.program));
  struct Added {
    size_t after, first, count;
    Value old, now;
  };
  std::vector<Added> added;
  std::map<int32_t, std::pair<Value, Value>> adapters;  // a weight that is read twice has one
  const double scale = lora.alpha == 0 ? 1 : lora.alpha / static_cast<double>(lora.rank);
  const size_t casts = b.program().ops.size();
  uint64_t stream = model.inits.size() + model.state_inits.size();
  for (const Layer& layer : layers) {
    if (adapters.contains(layer.weight.index)) continue;
    const std::string name = b.program()[layer.weight].name;
    const Dims shape = b.shape(layer.weight);
    const Dim out = layer.rows ? shape[0] : shape[1];
    const Dim in = layer.rows ? shape[1] : shape[0];
    const DType wide = model.options.dtype == DType::f64 ? DType::f64 : DType::f32;
    const auto make = [&](const char* suffix, const Dims& dims, const Init& init) {
      const Value master = b.parameter(name + suffix, {wide, dims});
      model.inits.push_back(init);
      model.inits.back().stream = stream++;
      return wide == model.options.dtype ? master : program::cast(b, master, model.options.dtype);
    };
    const Value a = make(".lora_a", {lora.rank, in}, fan_in(in.constant()));
    adapters[layer.weight.index] = {a, make(".lora_b", {out, lora.rank}, constant(0))};
  }
  const size_t prologue = b.program().ops.size() - casts;
  for (const Layer& layer : layers) {
    const auto [a, z] = adapters.at(layer.weight.index);
    const Value x = b.program().ops[layer.op].inputs[0];
    const Value y = b.program().ops[layer.op].outputs[0];
    const size_t first = b.program().ops.size();
    Value beside = program::linear(b, program::linear(b, x, a), z);
    if (scale != 1) beside = program::affine(b, beside, {.scale = scale});
    const Value sum = program::add(b, y, beside);
    added.push_back({layer.op, first, b.program().ops.size() - first, y, sum});
  }
  Program program = std::move(b).finish();
  for (const Added& one : added) {
    std::set<size_t> own;
    for (size_t i = 0; i < one.count; ++i) own.insert(one.first + i);
    replace_value(program, one.old, one.now, own);
  }
  std::vector<Op> ops(program.ops.begin() + static_cast<std::ptrdiff_t>(casts),
                      program.ops.begin() + static_cast<std::ptrdiff_t>(casts + prologue));
  size_t next = 0;
  for (size_t i = 0; i < written; ++i) {
    ops.push_back(program.ops[i]);
    for (; next < added.size() && added[next].after == i; ++next) {
      for (size_t k = 0; k < added[next].count; ++k) ops.push_back(program.ops[added[next].first + k]);
    }
  }
  program.ops = std::move(ops);
  model.program = std::move(program);
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  size_t p = 0;
  size_t n = 0;
  size_t star = std::string_view::npos;  // the last one seen, and where its text ends
  size_t end = 0;
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] != '*' && pattern[p] == name[n]))) {
      ++p;
      ++n;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      end = n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++end;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

Lora parse_lora(std::string_view text) {
  Lora lora;
  const auto refuse = [&] {
    throw ArgumentError(fmt::format("--lora is {}, expected r=8 or r=8,alpha=16", quote(text)));
  };
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const size_t equals = one.find('=');
    if (equals == std::string_view::npos) refuse();
    int64_t number = 0;
    const char* last = one.data() + one.size();
    const auto [end, error] = std::from_chars(one.data() + equals + 1, last, number);
    if (error != std::errc() || end != last || number < 1 || number > 65536) refuse();
    if (one.substr(0, equals) == "r") {
      lora.rank = number;
    } else if (one.substr(0, equals) == "alpha") {
      lora.alpha = static_cast<double>(number);
    } else {
      refuse();
    }
  }
  return lora;
}

Model adapt(Model model, const AdaptOptions& options) {
  if (!model.options.training) return model;
  keep_streams(model);
  require_matches(model.program, options.freeze, "--freeze");
  if (!options.lora) {
    freeze(model, [&](const std::string& name) { return matches_any(options.freeze, name); });
    if (model.program.parameters.empty()) throw ArgumentError("--freeze leaves nothing to train");
    return model;
  }
  require_matches(model.program, options.lora->targets, "--lora-target");
  std::vector<Layer> layers = layers_of(model.program);
  std::erase_if(layers, [&](const Layer& layer) {
    const std::vector<std::string>& targets = options.lora->targets;
    return !targets.empty() && !matches_any(targets, model.program[layer.weight].name);
  });
  if (layers.empty()) throw ArgumentError("--lora finds no linear layer to stand beside");
  add_adapters(model, *options.lora, layers);
  freeze(model, [](const std::string& name) { return !name.ends_with(".lora_a") && !name.ends_with(".lora_b"); });
  return model;
}

ModelInfo adapt(ModelInfo info, const AdaptOptions& options) {
  if (options.freeze.empty() && !options.lora) return info;
  info.build = [build = info.build, options](const NetOptions& net, Size size) {
    return adapt(build(net, size), options);
  };
  return info;
}

ModelInfo with_dropout(ModelInfo info, double rate) {
  info.build = [plain = info.build, rate](const NetOptions& net, Size size) {
    Model model = plain(net, size);
    for (program::Op& op : model.program.ops) {
      for (size_t i = 0; op.def->name == "dropout" && i < op.attributes.size(); ++i) {
        if (op.def->attributes[i].name == "rate") op.attributes[i] = program::Attribute(rate);
      }
    }
    return model;
  };
  return info;
}

}  // namespace plimsoll::models
