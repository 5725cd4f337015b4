// What the transformers of the zoo share. Sequences are [batch, sequence, width].
#pragma once

#include "plimsoll/models/nn.h"

namespace plimsoll::models {

// The sizes that BERT-base and the smallest GPT-2 share, but for their vocabularies.
struct TransformerSizes {
  int64_t tokens = 0;
  int64_t positions = 0;
  int layers = 12;
  int64_t heads = 12;
  int64_t width = 768;
  double dropout = 0.1;
};

// A model of them that tests can afford.
inline constexpr TransformerSizes kSmallTransformer = {
    .tokens = 11, .positions = 9, .layers = 2, .heads = 2, .width = 6};

// Attention for queries, keys and values that one product made side by side: [batch, sequence, 3 * width].
Value self_attend(Net& net, Value qkv, const Heads& heads);

// GPT-2 of other sizes than the zoo's.
Model build_gpt2_of(const NetOptions& options, const TransformerSizes& sizes);

// All transformers of the zoo start so, as their papers and libraries do.
inline const Init kTransformerInit = normal(0.02);

}  // namespace plimsoll::models
