#include "plimsoll/kernels/cuda/support/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/device/cuda/modules.h"
#include "plimsoll/device/cuda/runtime.h"
#include "plimsoll/kernels/cuda/support/sources.h"

namespace plimsoll::kernels::cuda {
namespace {

using plimsoll::cuda::Runtime;
using plimsoll::cuda::StreamHandle;

StreamHandle handle_of(device::Stream& stream) { return static_cast<StreamHandle>(stream.native()); }

plimsoll::cuda::DevicePointer pointer(const std::byte* at) {
  return reinterpret_cast<plimsoll::cuda::DevicePointer>(at);
}

// What a bound launch keeps: the values of its arguments and where they are.
struct Bound {
  std::vector<std::vector<std::byte>> values;
  std::vector<void*> places;
  plimsoll::cuda::FunctionHandle function = nullptr;
  std::string name;
};

struct DeviceFault {
  device::FaultRecord* to;
  int32_t op;
  int32_t operand;
};

Task bind_launch(const Launch& launch, const Memory& memory) {
  const std::string text = text_of(launch, launch.arguments.are_aligned(memory));
  if (CompileOnly::architecture() != nullptr) {
    plimsoll::cuda::machine_code(text, launch.source, *CompileOnly::architecture());
    return [](device::Stream&) {};
  }
  Runtime& runtime = Runtime::current();
  auto bound = std::make_shared<Bound>();
  bound->values = launch.arguments.bound(memory);
  for (std::vector<std::byte>& value : bound->values) bound->places.push_back(value.data());
  bound->function = runtime.modules().function(text, launch.source, launch.function.c_str());
  bound->name = launch.source + "." + launch.function;
  if (launch.shared_bytes > 48 * 1024) {
    runtime.check(runtime.compute().func_set_attribute(bound->function, plimsoll::cuda::kFunctionMaxDynamicShared,
                                                       static_cast<int>(launch.shared_bytes)),
                  "cuFuncSetAttribute");
  }
  return [&runtime, bound, grid = launch.grid, block = launch.block,
          shared = launch.shared_bytes](device::Stream& stream) {
    const auto result = runtime.compute().launch_kernel(
        bound->function, static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z),
        block.x, block.y, 1, shared, handle_of(stream), bound->places.data(), nullptr);
    if (result != plimsoll::cuda::kSuccess) runtime.fail(result, "launching kernel " + bound->name);
  };
}

}  // namespace

std::byte* address(const At& at, const Memory& memory) {
  const auto find = [&](const std::vector<std::byte*>& list) {
    const auto place = static_cast<size_t>(at.index);
    return place < list.size() ? list[place] : nullptr;
  };
  std::byte* base = nullptr;
  if (at.where == At::Where::in) base = find(memory.inputs);
  if (at.where == At::Where::out) base = find(memory.outputs);
  if (at.where == At::Where::scratch) base = memory.scratch;
  return base == nullptr ? nullptr : base + at.offset;
}

bool Arguments::are_aligned(const Memory& memory) const {
  return std::all_of(parts_.begin(), parts_.end(), [&](const auto& part) {
    const At* at = std::get_if<At>(&part);
    return at == nullptr || reinterpret_cast<uintptr_t>(address(*at, memory)) % 16 == 0;
  });
}

std::vector<std::vector<std::byte>> Arguments::bound(const Memory& memory) const {
  std::vector<std::vector<std::byte>> values;
  for (const auto& part : parts_) {
    if (const At* at = std::get_if<At>(&part)) {
      values.push_back(bytes_of_struct(address(*at, memory)));
    } else if (const FaultOf* fault = std::get_if<FaultOf>(&part)) {
      values.push_back(bytes_of_struct(DeviceFault{memory.fault, memory.op, fault->operand}));
    } else if (const WithAddress* both = std::get_if<WithAddress>(&part)) {
      values.push_back(bytes_of_struct(address(both->at, memory)));
      values.back().insert(values.back().end(), both->rest.begin(), both->rest.end());
    } else {
      values.push_back(std::get<std::vector<std::byte>>(part));
    }
  }
  return values;
}

Defines& Defines::set(std::string_view name, std::string_view value) {
  text_ += fmt::format("#define {} {}\n", name, value);
  return *this;
}

Defines& Defines::set(std::string_view name, DType dtype) { return set(name, type_name(dtype)); }

std::string_view type_name(DType dtype) { return dtype == DType::boolean ? "boolean" : name(dtype); }

std::string text_of(const Launch& launch, bool aligned) {
  return fmt::format("{}{}\n{}\n{}\n{}", aligned ? "#define ALIGNED 1\n" : "", kernel_source("common"),
                     launch.defines.text(), launch.before.empty() ? "" : kernel_source(launch.before),
                     kernel_source(launch.source));
}

Step step(Launch launch) {
  return [launch = std::move(launch)](const Memory& memory) { return bind_launch(launch, memory); };
}

Step fill_bytes(At at, uint8_t value, int64_t bytes) {
  return [=](const Memory& memory) -> Task {
    return [=, to = pointer(address(at, memory))](device::Stream& stream) {
      if (CompileOnly::architecture() != nullptr) return;
      Runtime& runtime = Runtime::current();
      runtime.check(runtime.compute().memset_d8_async(to, value, static_cast<size_t>(bytes), handle_of(stream)),
                    "cuMemsetD8Async");
    };
  };
}

Step copy_bytes(At to, At from, int64_t bytes) {
  return [=](const Memory& memory) -> Task {
    std::byte* target = address(to, memory);
    const std::byte* source = address(from, memory);
    return [=](device::Stream& stream) {
      if (target == source || bytes == 0 || CompileOnly::architecture() != nullptr) return;
      Runtime& runtime = Runtime::current();
      runtime.check(runtime.compute().memcpy_dtod_async(pointer(target), pointer(source), static_cast<size_t>(bytes),
                                                        handle_of(stream)),
                    "cuMemcpyDtoDAsync");
    };
  };
}

Kernel kernel_of(std::vector<Step> steps, int64_t scratch_bytes) {
  return {scratch_bytes, [steps = std::move(steps)](const Memory& memory) -> Task {
            std::vector<Task> tasks;
            for (const Step& one : steps) tasks.push_back(one(memory));
            if (tasks.size() == 1) return tasks[0];
            return [tasks = std::move(tasks)](device::Stream& stream) {
              for (const Task& task : tasks) task(stream);
            };
          }};
}

int64_t blocks_for(int64_t n, int64_t threads, int64_t each) { return ceil_div(n, threads * each); }

At Scratch::take(int64_t bytes) {
  const At at = scratch(bytes_);
  bytes_ += align_up(bytes, int64_t{256});
  return at;
}

}  // namespace plimsoll::kernels::cuda
