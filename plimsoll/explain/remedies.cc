#include "plimsoll/explain/remedies.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "plimsoll/base/bytes.h"

namespace plimsoll::explain::remedy {
namespace {

constexpr const char* kNoCost = "none";

OptionalBytes half(OptionalBytes bytes) { return bytes ? OptionalBytes(*bytes / 2) : std::nullopt; }

}  // namespace

Remedy expandable_segments(std::string_view variable, OptionalBytes saves) {
  return {"let segments grow, so that free pages are used wherever they lie",
          fmt::format("{}=expandable_segments:True", variable), saves, kNoCost};
}

Remedy empty_cache(OptionalBytes saves) {
  return {"give cached segments back before the large allocation", "torch.cuda.empty_cache()", saves,
          "a few milliseconds each time"};
}

Remedy limit_splitting(std::string_view variable, int64_t largest_needed, OptionalBytes saves) {
  const int64_t megabytes =
      std::max<int64_t>(32, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(largest_needed / kMiB / 4 + 1))));
  return {"keep large segments whole, so that small blocks do not pin them",
          fmt::format("{}=max_split_size_mb:{}", variable, megabytes), saves, "more calls to the driver"};
}

Remedy raise_torch_cap(int64_t gains, double fraction) {
  return {"raise or remove the cap: the device has room beyond it",
          fmt::format("torch.cuda.set_per_process_memory_fraction({:.2f})", fraction), gains, kNoCost};
}

Remedy smaller_batch(OptionalBytes activation_bytes) {
  return {"half the batch, two accumulation steps: the effective batch stays",
          "batch_size //= 2; (loss / 2).backward() twice per optimizer.step()", half(activation_bytes),
          "0 to 10 % more time"};
}

Remedy checkpoint_blocks(std::string_view place, bool transformers, int64_t blocks, OptionalBytes saves) {
  const std::string setting = transformers ? "model.gradient_checkpointing_enable()"
                                           : "x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)";
  return {fmt::format("checkpoint the {} repeated blocks called at {}", blocks, place), setting, saves,
          "about 30 % more compute"};
}

Remedy autocast(OptionalBytes activation_bytes) {
  return {"compute in bfloat16 (changes rounding)",
          "with torch.autocast(\"cuda\", dtype=torch.bfloat16):", half(activation_bytes), "usually faster"};
}

Remedy stop_leak(std::string_view place, int64_t bytes_per_step, OptionalBytes saves) {
  return {fmt::format("do not keep what is made at {} ({} a step)", place, format_bytes(bytes_per_step)),
          "keep y.detach().cpu() or loss.item() instead of the tensor, or drop the reference", saves, kNoCost};
}

Remedy eight_bit_optimizer(int64_t state_bytes) {
  return {"keep the optimizer's state in 8 bits (changes rounding)", "optimizer = bitsandbytes.optim.AdamW8bit(...)",
          state_bytes / 4 * 3, "about the same"};
}

Remedy shard_state(int64_t bytes) {
  return {"shard weights, gradients and state over two or more devices", "torch.distributed.fsdp.fully_shard(model)",
          bytes / 2, "communication every step"};
}

Remedy single_tensor_optimizer(int64_t scratch_bytes) {
  return {"update one tensor at a time", "torch.optim.AdamW(params, foreach=False)", scratch_bytes,
          "a slower optimizer step"};
}

Remedy free_gradients(int64_t gradient_bytes) {
  return {"free gradients before the next forward pass", "optimizer.zero_grad(set_to_none=True)", gradient_bytes,
          kNoCost};
}

Remedy split_request(Framework framework, int64_t requested, int64_t limit) {
  const int64_t parts = requested / std::max<int64_t>(limit, 1) + 1;
  return {fmt::format("compute it in {} or more parts, or in a smaller dtype: it can never fit whole", parts),
          framework == Framework::torch ? "for part in x.chunk(N): ..." : "", requested - requested / parts,
          "depends on the loop"};
}

Remedy check_shape() {
  return {"print the shape where the tensor is made: a dimension has overflowed, is not initialised, or is an id", "",
          std::nullopt, kNoCost};
}

Remedy bound_shapes(int64_t excess) {
  return {"bound the odd step: truncate or bucket by length, or split that batch", "", excess, kNoCost};
}

Remedy stop_other_processes(std::string_view who, OptionalBytes bytes) {
  return {fmt::format("stop {} or use another device", who), "nvidia-smi; CUDA_VISIBLE_DEVICES=<free device>", bytes,
          kNoCost};
}

Remedy lazy_modules() {
  return {"load kernels when they are first used", "CUDA_MODULE_LOADING=LAZY", std::nullopt, kNoCost};
}

Remedy smaller_workspace() {
  return {"leave room for the library: take less in tensors, or a smaller workspace", "CUBLAS_WORKSPACE_CONFIG=:16:8",
          std::nullopt, "slower matrix products"};
}

Remedy record_snapshot() {
  return {"record what is alive, then ask again",
          "torch.cuda.memory._record_memory_history(); torch.cuda.memory._dump_snapshot(\"oom.pickle\")", std::nullopt,
          "about 1 % while recording"};
}

Remedy fewer_workers(OptionalBytes bytes) {
  return {"fewer loader workers, or fewer batches ahead", "DataLoader(num_workers=N // 2, prefetch_factor=1)",
          half(bytes), "slower loading, if loading is what you wait for"};
}

Remedy unpin() {
  return {"do not pin, or pin less", "DataLoader(pin_memory=False), or a smaller prefetch_factor; see ulimit -l",
          std::nullopt, "slower copies to the device"};
}

Remedy more_shared_memory() {
  return {"give the container more shared memory",
          "docker run --shm-size=8g (or --ipc=host); Kubernetes: an emptyDir "
          "with medium: Memory at /dev/shm",
          std::nullopt, kNoCost};
}

Remedy raise_cgroup_limit(OptionalBytes needed) {
  const std::string size = needed ? fmt::format("{}Mi", (*needed + *needed / 4) / kMiB) : "<more>";
  return {"raise the limit of the container or service",
          fmt::format("resources.limits.memory: {} (Kubernetes), docker run --memory, or MemoryMax= (systemd)", size),
          std::nullopt, kNoCost};
}

Remedy stream_from_disk(OptionalBytes requested) {
  return {"read it in pieces or map it from disk", "np.memmap(...), torch.load(..., mmap=True)", requested,
          "reads from disk"};
}

Remedy async_allocator() {
  return {"use the driver's allocator, which remaps pages", "TF_GPU_ALLOCATOR=cuda_malloc_async", std::nullopt,
          "small"};
}

Remedy grow_on_demand() {
  return {"take memory as it is needed, so that two processes can share the device", "TF_FORCE_GPU_ALLOW_GROWTH=true",
          std::nullopt, "small"};
}

Remedy xla_memory_fraction() {
  return {"let XLA have more of the device", "XLA_PYTHON_CLIENT_MEM_FRACTION=.95", std::nullopt, kNoCost};
}

Remedy xla_remat() {
  return {"recompute instead of keeping", "jax.checkpoint(block) (jax.remat)", std::nullopt, "about 30 % more compute"};
}

Remedy ort_arena() {
  return {"grow the arena by what is asked, not by doubling, and raise its limit",
          "CUDAExecutionProvider: arena_extend_strategy=kSameAsRequested, gpu_mem_limit=<more>", std::nullopt, "small"};
}

Remedy ggml_offload() {
  return {"put fewer layers on the device, or use a smaller context", "--n-gpu-layers N, --ctx-size N", std::nullopt,
          "layers on the CPU are slower"};
}

Remedy mlx_limits() {
  return {"split the array, or use a smaller batch: one Metal buffer has a fixed greatest size", "", std::nullopt,
          kNoCost};
}

Remedy plimsoll_budget(int64_t budget_bytes) {
  return {"raise the budget, or let the planner find a way to fit", fmt::format("--budget {}", budget_bytes),
          std::nullopt, kNoCost};
}

}  // namespace plimsoll::explain::remedy
