// Values of a model's parameters from files of weights, and back, by the names that PyTorch has for them: those of
// torchvision, and of Hugging Face's GPT-2, BERT and ViT, whose prefixes (`transformer.`, `model.`) are seen through.
#pragma once

#include <string>

#include "plimsoll/models/weights/safetensors.h"
#include "plimsoll/models/zoo/zoo.h"

namespace plimsoll::models {

// The model with its parameters, and what it keeps beside them, starting as the file says (weights/archives.h has the
// kinds of files). Values are read when they are wanted, a block at a time. Building it is an
// ArgumentError that names a parameter that the file does not have, or has in another shape. A file of `compress`
// (compressed.h) may have other shapes: the model is then the pruned one.
ModelInfo with_weights(ModelInfo info, const std::string& path);

// Whether the file of weights holds the transpose of this parameter: GPT-2's published layers are [in, out].
bool is_stored_transposed(const ModelInfo& info, std::string_view parameter);

}  // namespace plimsoll::models
