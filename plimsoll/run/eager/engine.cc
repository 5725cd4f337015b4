#include "plimsoll/run/eager/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "plimsoll/base/error.h"
#include "plimsoll/run/eager/key.h"

namespace plimsoll::eager {
namespace {

using program::OpCall;
using program::Type;

Place place_of(const EagerCall& use, size_t k) {
  if (k < use.places.size()) return use.places[k];
  return {.kind = use.def.is_optional_output(k) ? Place::Kind::absent : Place::Kind::automatic};
}

std::string key_of(const EagerCall& use) {
  Key key(use.def, use.attributes);
  for (const Data& input : use.inputs) key.add(input.desc);
  for (const Place& place : use.places) {
    key.add(static_cast<int64_t>(place.kind));
    key.add(place.operand);
    if (place.desc) key.add(*place.desc);
  }
  return std::move(key).take();
}

program::Layout layout_of(const kernels::TensorDesc& tensor) {
  program::Layout layout;
  for (int axis = 0; axis < tensor.shape.rank(); ++axis) layout.strides.push_back(tensor.stride(axis));
  return layout;
}

kernels::TensorDesc tensor_of(const Type& type, const program::Layout& layout) {
  kernels::TensorDesc tensor{type.dtype, type.shape.shape(), {}};
  for (int axis = 0; axis < tensor.shape.rank(); ++axis) {
    tensor.strides[static_cast<size_t>(axis)] = layout.strides[axis].constant();
  }
  return tensor;
}

// The operand that result k is the new content of, or -1.
int overwritten_by(const program::OpDef& def, size_t k) {
  for (const program::Overwrite& overwrite : def.overwrites) {
    if (static_cast<size_t>(overwrite.output) == k) return overwrite.input;
  }
  return -1;
}

}  // namespace

Engine::Engine(Pool& pool, EngineOptions options)
    : pool_(pool), options_(std::move(options)), threads_(kernels::thread_count(options_.device)) {
  kernels::kernels_of(options_.device.device);  // UnsupportedError now, not at the first op
}

std::vector<Data> Engine::run(const EagerCall& use) {
  program::check_arity(use.def, use.inputs.size());
  const std::shared_ptr<const Prepared> prepared = prepared_for(use);
  std::vector<Data> results;
  results.reserve(prepared->results.size());
  for (const Result& result : prepared->results) results.push_back(make(result, use));
  last_seconds_ = 0;
  if (prepared->kernel.bind) compute(*prepared, use, results);
  for (size_t k = 0; k < results.size(); ++k) {
    if (prepared->results[k].made && prepared->results[k].shares >= 0) results[k].storage->overwritten();
  }
  return results;
}

Data Engine::allocate(const TensorSpec& spec, Category category, std::string_view name, std::string_view op) {
  const Request request{.bytes = spec.bytes(), .tag = pool_.tag(category, name), .spec = &spec, .op = op};
  return {kernels::contiguous(spec.dtype, spec.shape), 0, take(request)};
}

std::shared_ptr<Storage> Engine::take(const Request& request) {
  const Block block = options_.allocate ? options_.allocate(pool_, request) : pool_.allocate(request);
  try {
    return std::make_shared<Storage>(pool_, block, request.bytes);
  } catch (...) {
    pool_.free(block);
    throw;
  }
}

std::shared_ptr<const Engine::Prepared> Engine::prepared_for(const EagerCall& use) {
  std::string key = key_of(use);
  const auto found = cache_.find(key);
  if (found != cache_.end()) return found->second;
  auto made = std::make_shared<const Prepared>(prepare(use));
  ++prepared_count_;
  if (cache_.size() >= kMostPrepared) cache_.clear();
  return cache_.emplace(std::move(key), std::move(made)).first->second;
}

Engine::Prepared Engine::prepare(const EagerCall& use) const {
  std::vector<Type> types;
  for (const Data& input : use.inputs) types.push_back(input.type());
  OpCall call{use.def, types, use.attributes, {}, use.def.name};
  const std::vector<Type> result_types = use.def.infer(call);
  call.outputs = result_types;

  Prepared prepared;
  kernels::KernelCall kernel_call{call, {}, {}, {}, threads_};
  for (const Data& input : use.inputs) kernel_call.inputs.push_back(input.desc);
  bool writes = false;
  for (size_t k = 0; k < result_types.size(); ++k) {
    const Result& result = prepared.results.emplace_back(place_result(use, call, k));
    kernel_call.outputs.push_back(result.desc);
    kernel_call.requested.push_back(result.made);
    writes = writes || result.made;
  }
  if (writes) prepared.kernel = kernels::prepare_call(kernel_call, options_.device);
  return prepared;
}

Engine::Result Engine::place_result(const EagerCall& use, const OpCall& call, size_t k) {
  const Place place = place_of(use, k);
  const Type& type = call.outputs[k];
  Result result;
  if (place.kind == Place::Kind::absent) {
    result.absent = true;
    return result;
  }
  result.desc = place.desc ? *place.desc : kernels::contiguous(type.dtype, type.shape.shape());
  result.made = result.desc.elements() > 0;
  if (place.kind == Place::Kind::in_place) result.shares = place.operand;
  if (const int operand = overwritten_by(use.def, k); operand >= 0) {
    if (!use.inputs[static_cast<size_t>(operand)].desc.is_contiguous()) {
      call.reject(fmt::format("{} is overwritten and must be contiguous", use.def.input_name(operand)));
    }
    result.shares = operand;
  }
  if (place.kind != Place::Kind::automatic || !use.def.produces_views()) return result;
  const auto view = use.def.view_of(call, layout_of(use.inputs[0].desc), static_cast<int>(k));
  if (!view) return result;
  return {.made = false, .shares = 0, .desc = tensor_of(type, *view), .offset = view->offset.constant()};
}

Data Engine::make(const Result& result, const EagerCall& use) {
  if (result.absent) return {};
  if (result.shares < 0)
    return allocate({result.desc.dtype, result.desc.shape}, use.category, use.def.name, use.def.name);
  const Data& with = use.inputs[static_cast<size_t>(result.shares)];
  return {result.desc, with.offset + result.offset, with.storage};
}

void Engine::compute(const Prepared& prepared, const EagerCall& use, const std::vector<Data>& results) {
  kernels::Memory memory;
  for (const Data& input : use.inputs) memory.inputs.push_back(input.at());
  for (const Data& result : results) memory.outputs.push_back(result ? result.at() : nullptr);
  std::shared_ptr<Storage> scratch;
  if (prepared.kernel.scratch_bytes > 0) {
    const uint32_t tag = pool_.tag(Category::scratch, use.def.name);
    scratch = take({.bytes = prepared.kernel.scratch_bytes, .tag = tag, .op = use.def.name});
    memory.scratch = scratch->data();
  }
  const kernels::Task task = prepared.kernel.bind(memory);
  const auto start = std::chrono::steady_clock::now();
  task();
  last_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace plimsoll::eager
