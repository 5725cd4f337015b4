// A step of every op between ranks, whose results are the same step after step.
#pragma once

#include <vector>

#include "plimsoll/program/ops/collective.h"
#include "plimsoll/run/session.h"

namespace plimsoll {

// Of parameters x and y with so many elements, x and y of f32.
inline program::Program collective_step(int ranks, int64_t elements) {
  using namespace program;
  Builder b;
  const Value x = b.parameter("x", {DType::f32, {elements}});
  const Value y = b.parameter("y", {DType::f32, {3, 2}});
  const Value shard = own_shard(b, x, ranks);
  b.output(shard);
  b.output(all_reduce(b, clone(b, x), ranks));
  b.output(reduce_scatter(b, clone(b, x), ranks));
  b.output(all_gather(b, clone(b, x), shard, ranks));
  b.output(broadcast(b, clone(b, y), ranks, ranks - 1));
  const Value pack = pack_shards(b, std::vector<Value>{x, y}, ranks);
  const Value other = clone(b, pack);
  const Value going = all_reduce_start(b, pack, ranks);
  const Going scattered = reduce_scatter_start(b, other, ranks);
  const Going gathered = gather_start(b, shard, {elements}, ranks);
  const Value sums = collective_finish(b, {going}, ranks);
  b.output(take_shards(b, clone(b, x), sums, 0, ranks));
  b.output(take_shards(b, clone(b, y), sums, shard_elements({elements}, ranks), ranks));
  b.output(collective_finish(b, scattered, ranks));
  b.output(collective_finish(b, gathered, ranks));
  b.output(collective_finish(b, all_gather_start(b, clone(b, x), shard, ranks), ranks));
  return std::move(b).finish();
}

// Of this rank.
inline std::vector<float> collective_numbers(int rank, int64_t elements) {
  std::vector<float> numbers(static_cast<size_t>(elements));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(rank * 1000) + static_cast<float>(i) / 3 + (rank == 1 ? 1e7F : 0.0F);
  }
  return numbers;
}

// What the outputs are after each of so many steps on the device; kernels::communicator() is of the run.
inline std::vector<std::vector<std::vector<float>>> collective_results(const std::string& device, int rank, int ranks,
                                                                       int64_t elements, int steps) {
  const program::Program program = collective_step(ranks, elements);
  run::Session session(program, {.device = device, .threads = 1}, device::find_device(device).budget());
  run::Executor& executor = session.executor();
  for (const program::Value parameter : program.parameters) {
    const int64_t count = program[parameter].type.shape.elements().constant();
    executor.write<float>(parameter, collective_numbers(rank, count));
  }
  std::vector<std::vector<std::vector<float>>> results;
  for (int i = 0; i < steps; ++i) {
    executor.step();
    std::vector<std::vector<float>>& outputs = results.emplace_back();
    for (const program::Value output : program.outputs) outputs.push_back(executor.read<float>(output));
  }
  return results;
}

}  // namespace plimsoll
