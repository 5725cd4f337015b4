// The last to be tried: older and rarer frameworks, hosts of notebooks, and the driver's words in anybody's mouth.
#include "plimsoll/explain/line_form.h"

namespace plimsoll::explain {
namespace {

constexpr std::string_view kDriver = "The driver found no device memory; the message gives no figures";

constexpr LineForm cuda(std::array<std::string_view, 3> all) {
  return {.backend = Backend::cuda,
          .all = all,
          .none = {"Search for `", "not a failure"},
          .says = Cause::device_full,
          .sure = Confidence::low,
          .headline = kDriver};
}

constexpr LineForm batch_system(std::array<std::string_view, 3> all) {
  return {.backend = Backend::cpu,
          .arena = Arena::cgroup,
          .all = all,
          .says = Cause::cgroup_limit,
          .sure = Confidence::high,
          .headline = "The memory limit of the job or container was reached, and it was killed"};
}

constexpr LineForm kForms[] = {
    batch_system({"TERM_MEMLIMIT"}),                              // LSF
    batch_system({"job killed: ", "mem", "exceeded limit"}),      // PBS
    batch_system({"gone over memory limit"}),                     // HTCondor
    batch_system({"Container killed due to memory usage"}),       // ECS
    batch_system({"Memory limit of ", "exceeded with", "used"}),  // Cloud Run
    {.backend = Backend::cpu,
     .arena = Arena::host,
     .all = {"session crashed after using all available RAM"},
     .says = Cause::host_memory,
     .sure = Confidence::high,
     .headline = "The notebook's machine ran out of RAM, and its host restarted the session"},
    {.backend = Backend::cpu,
     .arena = Arena::host,
     .all = {"tried to allocate more memory than is available"},
     .says = Cause::host_memory,
     .sure = Confidence::high,
     .headline = "The notebook's machine ran out of RAM, and its host restarted the session"},
    {.backend = Backend::cpu, .arena = Arena::host, .all = {"fork: Cannot allocate memory"}},
    {.backend = Backend::cuda,
     .all = {"Out of GPU memory trying to allocate "},  // CUDA.jl
     .figures = {{{&Failure::requested_bytes, "trying to allocate "}}}},
    {.framework = Framework::unknown,
     .all = {"Memory not enough", "request memory size"},  // MindSpore
     .figures = {{{&Failure::requested_bytes, "size:"}}}},
    cuda({"(2 vs. 0)", "out of memory"}),            // Caffe
    cuda({"CUDA Error: out of memory"}),             // darknet
    cuda({"cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY"}),  // Theano
    cuda({"CUDA runtime error", "out of memory"}),   // LMDeploy and others
    cuda({"CUDA failure 2: out of memory"}),         // CNTK
    cuda({"CUDA_ERROR_OUT_OF_MEMORY", "rror"}),      // candle, cudarc, OptiX
    cuda({"cudaErrorMemoryAllocation", "rror"}),
    cuda({"cudaMalloc failed: out of memory"}),
};

}  // namespace

std::span<const LineForm> generic_forms() { return kForms; }

}  // namespace plimsoll::explain
