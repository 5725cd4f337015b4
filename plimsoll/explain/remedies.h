// What would help, as data. Each function gives one remedy with the setting for that framework; the causes choose
// among them and order them by what they bring.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/explain/diagnosis.h"

namespace plimsoll::explain::remedy {

// `variable` is PYTORCH_CUDA_ALLOC_CONF, or PYTORCH_ALLOC_CONF where the version knows it.
Remedy expandable_segments(std::string_view variable, OptionalBytes saves);
Remedy empty_cache(OptionalBytes saves);
Remedy limit_splitting(std::string_view variable, int64_t largest_needed, OptionalBytes saves);

Remedy raise_torch_cap(int64_t gains, double fraction);
Remedy smaller_batch(OptionalBytes activation_bytes);
Remedy checkpoint_blocks(std::string_view place, bool transformers, int64_t blocks, OptionalBytes saves);
Remedy autocast(OptionalBytes activation_bytes);
Remedy stop_leak(std::string_view place, int64_t bytes_per_step, OptionalBytes saves);
Remedy eight_bit_optimizer(int64_t state_bytes);
Remedy shard_state(int64_t bytes);
Remedy single_tensor_optimizer(int64_t scratch_bytes);
Remedy free_gradients(int64_t gradient_bytes);
Remedy split_request(Framework framework, int64_t requested, int64_t limit);
Remedy check_shape();
Remedy bound_shapes(int64_t excess);

Remedy stop_other_processes(std::string_view who, OptionalBytes bytes);
Remedy lazy_modules();
Remedy smaller_workspace();
Remedy record_snapshot();

Remedy fewer_workers(OptionalBytes bytes);
Remedy unpin();
Remedy more_shared_memory();
Remedy raise_cgroup_limit(OptionalBytes needed);
Remedy stream_from_disk(OptionalBytes requested);

Remedy async_allocator();      // TensorFlow
Remedy grow_on_demand();       // TensorFlow
Remedy xla_memory_fraction();  // JAX
Remedy xla_remat();            // JAX
Remedy ort_arena();            // ONNX Runtime
Remedy ggml_offload();         // llama.cpp
Remedy mlx_limits();           // MLX
Remedy plimsoll_budget(int64_t budget_bytes);

}  // namespace plimsoll::explain::remedy
