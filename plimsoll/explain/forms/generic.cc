// The last to be tried: older and rarer frameworks, hosts of notebooks, and the driver's words in anybody's mouth.
#include "plimsoll/explain/line_form.h"

namespace plimsoll::explain {
namespace {

// The driver's word without figures, in anybody's mouth.
constexpr LineForm cuda(std::array<std::string_view, 3> all) {
  return {.backend = Backend::cuda, .all = all, .none = {"Search for `", "not a failure"}};
}

constexpr std::string_view kSignal9 = "A process was killed with signal 9; most often the machine ran out of RAM";

// A library on CUDA that says how much it asked for.
constexpr LineForm sized(std::array<std::string_view, 3> all, std::string_view front) {
  return {.backend = Backend::cuda, .all = all, .figures = {{{&Failure::requested_bytes, front}}}};
}

// The same of any device.
constexpr LineForm bare(std::array<std::string_view, 3> all, Framework framework = Framework::unknown) {
  return {.framework = framework, .all = all};
}

// An allocator of the host; what it asked for stands after `front`, if anywhere.
constexpr LineForm host(std::array<std::string_view, 3> all, std::string_view front = {}) {
  return {.backend = Backend::cpu,
          .arena = Arena::host,
          .all = all,
          .figures = {{{front.empty() ? nullptr : &Failure::requested_bytes, front, {}, true}}}};
}

constexpr LineForm host_says(std::array<std::string_view, 3> all, std::string_view headline) {
  return {.backend = Backend::cpu,
          .arena = Arena::host,
          .all = all,
          .says = Cause::host_memory,
          .sure = Confidence::medium,
          .headline = headline};
}

// A process that was killed, as somebody who watched it says: it had no word itself.
constexpr LineForm killed(std::array<std::string_view, 3> all, std::string_view headline = kSignal9) {
  LineForm form = host_says(all, headline);
  form.arena = Arena::worker;
  return form;
}

constexpr LineForm own_limit(std::array<std::string_view, 3> all) {
  return {.backend = Backend::cpu,
          .arena = Arena::host,
          .all = all,
          .says = Cause::cap_below_card,
          .sure = Confidence::medium,
          .headline = "The program's own limit on memory is reached"};
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
    batch_system({"has gone over ", "memory limit"}),             // HTCondor
    batch_system({"exceeded a memory resource limit"}),           // PBS, by mail
    batch_system({"exceeds job hard limit \"h_"}),                // Grid Engine: h_vmem, h_rss, h_data
    batch_system({"Error R15 (Memory quota"}),                    // Heroku
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
    {.backend = Backend::cpu,
     .arena = Arena::cgroup,
     .all = {"Runtime exited with error: signal: killed"},  // AWS Lambda
     .says = Cause::cgroup_limit,
     .sure = Confidence::medium,
     .headline = "The function was killed, most likely at the memory size that it was given"},
    host_says({"exit code 137", "OOM error"}, "The notebook's process was killed, most likely for want of RAM"),
    host_says({"use an instance type with more memory"}, "The job did not fit its instance's RAM"),
    killed({"excessive memory usage causing the Operating System to kill"},
           "A worker process was killed; most often the machine ran out of RAM"),
    {.backend = Backend::cpu, .arena = Arena::host, .all = {"fork: Cannot allocate memory"}},
    {.backend = Backend::cpu,
     .arena = Arena::shared_memory,
     .all = {"No space left on device", "/dev/shm"},
     .says = Cause::shared_memory,
     .sure = Confidence::medium,
     .headline = "/dev/shm is full, which is small in containers"},
    {.backend = Backend::cpu,
     .arena = Arena::shared_memory,
     .all = {"hared memory", "No space left on device"},
     .says = Cause::shared_memory,
     .sure = Confidence::medium,
     .headline = "/dev/shm is full, which is small in containers",
     .figures = {{{&Failure::requested_bytes, "requested size ("}}}},
    {.backend = Backend::rocm,
     .all = {"HSA_STATUS_ERROR_OUT_OF_RESOURCES", "Free mem : "},
     .says = Cause::device_full,
     .sure = Confidence::low,
     .headline = "AMD's runtime found no resources; {free} of device memory was free",
     .figures = {{{&Failure::free_bytes, "Free mem : "}}}},
    {.backend = Backend::cuda,
     .all = {"Out of GPU memory trying to allocate "},  // CUDA.jl; its pool's state follows
     .figures = {{{&Failure::requested_bytes, "trying to allocate "},
                  {&Failure::total_bytes, "GiB/", "GiB)"},
                  {&Failure::allocated_bytes, "CUDA allocator usage: "},
                  {&Failure::allowed_bytes, "(capped at "}}}},
    {.framework = Framework::unknown,
     .all = {"Memory not enough", "request memory size"},  // MindSpore
     .figures = {{{&Failure::requested_bytes, "size:"}}}},
    {.all = {"alloc size : ", "is more than total mem size : "},  // MindSpore's pool
     .figures = {{{&Failure::requested_bytes, "alloc size : "},
                  {&Failure::total_bytes, "total mem size : "},
                  {&Failure::allocated_bytes, "TotalUsedMemStatistics : "}}}},
    {.backend = Backend::cuda, .all = {"NvMapMemAlloc", "error 12"}},  // Jetson's driver
    {.backend = Backend::npu,
     .all = {"Memory_Allocation_Failure("},  // Ascend's runtime; the size follows
     .figures = {{{&Failure::requested_bytes, ", size:"}}}},
    {.backend = Backend::npu,
     .all = {"Not enough space to allocate ", "bank needs to store "},  // Tenstorrent; per bank
     .figures = {{{&Failure::requested_bytes, "needs to store "},
                  {&Failure::unallocated_bytes, "free: "},
                  {&Failure::largest_free_bytes, "largest free block: "},
                  {&Failure::allocated_bytes, "allocated: "}}}},
    {.backend = Backend::cpu,
     .arena = Arena::host,
     .all = {"array exceeds maximum array size preference"},  // MATLAB
     .says = Cause::request_too_large,
     .sure = Confidence::medium,
     .headline = "One array of {requested} is more than MATLAB may have: {allowed}",
     .figures = {{{&Failure::requested_bytes, " ("}, {&Failure::allowed_bytes, "preference ("}}}},
    // Other accelerators.
    {.backend = Backend::npu,
     .all = {"Failed to alloc DEVICE memory: "},  // AWS Neuron; how full it is follows
     .figures = {{{&Failure::requested_bytes, "DEVICE memory: "}, {&Failure::allocated_bytes, "* total: ", {}, true}}}},
    {.backend = Backend::npu,
     .all = {"Failed to allocate ", "(usage: ", "current utilization"},
     .figures = {{{&Failure::requested_bytes, "Failed to allocate ", {}, true},
                  {&Failure::allocated_bytes, "* total: ", {}, true}}}},
    {.backend = Backend::npu, .all = {"nrt_", "Allocation Failure"}},
    {.framework = Framework::torch,
     .backend = Backend::npu,
     .all = {"PT_DEVMEM Allocation failed"},  // Gaudi
     .figures = {{{&Failure::requested_bytes, "for size::"}}}},
    {.backend = Backend::npu,
     .all = {"Cannot fit all variable data onto one or more tiles"},  // Graphcore
     .says = Cause::device_full,
     .sure = Confidence::high,
     .headline = "The program does not fit the memory of the processor's tiles: {allocated} of {total}",
     .figures = {{{&Failure::allocated_bytes, "Memory use is "}, {&Failure::total_bytes, "available "}}}},
    {.backend = Backend::npu,
     .all = {"Out of memory on tile "},
     .says = Cause::device_full,
     .sure = Confidence::medium,
     .headline = "The program does not fit the memory of the processor's tiles"},
    {.backend = Backend::mps,  // PyTorch's where it speaks
     .all = {"CommandBufferCallbackErrorOutOfMemory"},
     .none = {"error: Insufficient"},  // llama.cpp's line, which has its own reader
     .says = Cause::unknown,
     .sure = Confidence::low,
     .headline = "Metal ran out of memory while it ran a command buffer; it gives no figures"},
    {.backend = Backend::mps,
     .all = {"nsufficient Memory", "IOAF code 8"},
     .says = Cause::unknown,
     .sure = Confidence::low,
     .headline = "Metal ran out of memory while it ran a command buffer; it gives no figures"},
    bare({"CL_MEM_OBJECT_ALLOCATION_FAILURE"}),
    bare({"WebGPU device error", "Out of memory"}, Framework::onnxruntime),
    bare({"wgpu error: Out of Memory"}),
    bare({"CUDA error: Out of memory in cuMem"}),  // Blender
    bare({"Out of memory in cuM"}),
    bare({"Out of memory in hipM"}),
    bare({"ut of GPU and shared host memory"}),
    bare({"System is out of GPU memory"}),
    bare({"Out of memory on device. To view more detail"}),  // MATLAB
    // Other libraries.
    sized({"StandardGpuResources: alloc fail", "out of memory"}, " size "),  // Faiss
    sized({"failed: failed to cudaMalloc ", "out of memory"}, "failed to cudaMalloc "),
    sized({"failed: Failed to cudaMalloc ", "out of memory"}, "Failed to cudaMalloc "),
    {.backend = Backend::cuda,
     .all = {"Error: Out of memory. Requested ", "; Free "},  // CatBoost
     .figures = {{{&Failure::requested_bytes, "Requested ", {}, true}, {&Failure::free_bytes, "; Free ", {}, true}}},
     .task = Task::training},
    {.backend = Backend::cuda,
     .all = {"not enough memory for tree-ctrs"},
     .says = Cause::device_full,
     .sure = Confidence::medium,
     .headline = "CatBoost's tables of categorical features do not fit what is free on the card",
     .task = Task::training},
    {.backend = Backend::cuda,
     .all = {"[DEVICE] memory allocation failed"},  // DL4J
     .figures = {{{&Failure::requested_bytes, "Requested bytes: ["}}}},
    {.backend = Backend::cpu,
     .arena = Arena::host,
     .all = {"Out of Memory Error: ", "ailed to allocate ", " used)"},  // DuckDB
     .says = Cause::cap_below_card,
     .sure = Confidence::high,
     .headline = "DuckDB's own memory limit of {allowed} is reached; {requested} more was asked for",
     .figures = {{{&Failure::requested_bytes, "of size "},
                  {&Failure::allocated_bytes, " ("},
                  {&Failure::allowed_bytes, "/", " used)"}}}},
    host({"Out of Memory Error: ", "ailed to allocate "}, "of "),
    host({"memory allocation of ", " bytes failed"}, "memory allocation of "),  // Rust: Polars and others
    host({"cannot allocate vector of size "}, "of size "),                      // R
    host({"Dataset create call failed in LightGBM", "bad_alloc"}),
    host_says({": out of memory allocating ", " after a total of "}, "A tool of the compiler ran out of RAM"),
    host_says({".exe: out of memory allocating ", " bytes"}, "A tool of the compiler ran out of RAM"),  // Windows
    host_says({"cc1", ": out of memory allocating ", " bytes"}, "A tool of the compiler ran out of RAM"),
    host_says({"C3859", "ailed to create virtual memory for PCH"}, "The compiler ran out of RAM or of paging file"),
    host_says({"Killed signal terminated program"}, "The compiler was killed; most often the machine ran out of RAM"),
    host_says({"internal compiler error: Killed"}, "The compiler was killed; most often the machine ran out of RAM"),
    killed({"WorkerLostError", "SIGKILL"}, "A worker process was killed; most often the machine ran out of RAM"),
    killed({"srun: error:", "task ", ": Killed"}),
    killed({"interrupted by signal 9"}),                  // PyCharm
    host({"Reason: 'MemoryError()'"}),                    // multiprocessing
    killed({"was sent SIGKILL! Perhaps out of memory"}),  // gunicorn
    killed({"died, killed by signal 9"}),                 // uWSGI
    killed({"terminated by SIGKILL; not exp"}),           // supervisord
    killed({"was terminated due to signal 9"}),           // gunicorn of old
    killed({"exited on signal 9"}),                       // mpirun
    killed({"died due to signal 9"}),                     // nvcc
    killed({"signal 9 (SIGKILL)"}),
    killed({"signal: 9, SIGKILL"}),  // cargo
    killed({"Negsignal.SIGKILL"}),   // Airflow
    killed({"return code -9"}),
    killed({"exit code -9"}),
    killed({"exit code: -9"}),
    killed({"exit status -9"}),
    killed({"zsh: killed "}),
    {.framework = Framework::plimsoll,
     .backend = Backend::cpu,
     .arena = Arena::host,
     .all = {"the system gives this process no more memory"},
     .says = Cause::host_memory,
     .sure = Confidence::high,
     .headline = "The system refused memory that the budget allows: a limit of the process or the RAM is below it"},
    {.framework = Framework::plimsoll,
     .backend = Backend::cpu,
     .arena = Arena::host,
     .all = {"plimsoll: ", " does not fit in "},
     .says = Cause::cap_below_card,
     .sure = Confidence::high,
     .headline = "The step needs more than its budget of {allowed}, so it was not run; the next line of the log has "
                 "the smallest budget that would do",
     .figures = {{{&Failure::allowed_bytes, " does not fit in "}}}},
    host_says({"No more memory available."}, "The program's own word: the host has no more memory"),  // Mathematica
    own_limit({"circuit_breaking_exception", "larger than the limit"}),                               // Elasticsearch
    own_limit({"cache resources exhausted"}),                                                         // ImageMagick
    host_says({"JavaScript heap out of memory"}, "The JavaScript heap reached its own maximum size"),
    cuda({"(2 vs. 0)", "out of memory"}),            // Caffe
    cuda({"is false: CUDA: out of memory"}),         // TVM, MLC
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
