// Tensors from the archives that numpy and PyTorch write, by memory map, without running anything that is in them.
#pragma once

#include "plimsoll/models/weights/safetensors.h"

namespace plimsoll::models {

// np.savez's file. Arrays of np.savez_compressed are inflated into memory. InputError for damaged archives and headers,
// UnsupportedError for arrays of other elements, in another byte order or by columns.
StoredTensors read_npz(const std::string& path);

// A state dict that torch.save wrote (PyTorch 1.6 and later), as it is or under "state_dict", "model_state_dict" or
// "model"; what is no tensor is left out. Names of callables beyond those that rebuild tensors are an InputError.
StoredTensors read_torch_file(const std::string& path);

// Any file of weights, by the end of its name: .npz, .pt .pth .bin, .safetensors or an index of such.
StoredTensors read_weights(const std::string& path);

}  // namespace plimsoll::models
