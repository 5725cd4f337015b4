// What of a model is trained. Frozen parameters become state that nothing changes: no gradients, no optimizer state,
// and in f16 or bf16 no master copy. LoRA freezes everything and trains two narrow matrices beside each chosen weight:
// y = x w' + scale * (x a') b', with b zero at first.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/models/zoo/zoo.h"

namespace plimsoll::models {

struct Lora {
  int64_t rank = 8;
  double alpha = 0;                       // scale = alpha / rank; 0: the rank, so that the scale is 1
  std::vector<std::string> targets = {};  // patterns of weights of linear layers; none: all of them
};

struct AdaptOptions {
  std::vector<std::string> freeze = {};  // patterns of parameters
  std::optional<Lora> lora = {};
};

// * stands for any text, ? for one character.
bool matches(std::string_view pattern, std::string_view name);

// "r=8" or "r=8,alpha=16". ArgumentError otherwise.
Lora parse_lora(std::string_view text);

// Models for inference are left as they are. ArgumentError for a pattern that fits no parameter, and where nothing is
// left to train.
Model adapt(Model model, const AdaptOptions& options);
ModelInfo adapt(ModelInfo info, const AdaptOptions& options);

// The same with every dropout at this rate; 0 drops nothing.
ModelInfo with_dropout(ModelInfo info, double rate);

}  // namespace plimsoll::models
