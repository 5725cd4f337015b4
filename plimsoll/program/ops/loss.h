// Losses: what a prediction and a target have between them, as one number or one for each element. Losses are f32, or
// f64 for f64 predictions.
#pragma once

#include "plimsoll/program/builder.h"

namespace plimsoll::program {

enum class Reduction : uint8_t { none, mean, sum };

struct CrossEntropyOptions {
  int axis = -1;                 // the dimension of the classes
  int64_t ignored_index = -100;  // targets of this class count for nothing, also not in the mean
  double label_smoothing = 0;    // this share of the target is spread evenly over all classes
  Reduction reduction = Reduction::mean;
};

// Logits, and the index of the right class for each of their lines along `axis`. The mean is over the targets that are
// not ignored; it is not a number when all are. Backward reads logits, targets and the logarithm of each line's sum of
// exponentials, and may write over the logits: the softmax is never stored.
Value cross_entropy(Builder& b, Value logits, Value targets, CrossEntropyOptions options = {});

// Element by element; x and target are of one type. Backward reads both and may write over either.
Value mse_loss(Builder& b, Value x, Value target, Reduction reduction = Reduction::mean);
Value l1_loss(Builder& b, Value x, Value target, Reduction reduction = Reduction::mean);
// Quadratic up to a distance of delta, linear beyond.
Value huber_loss(Builder& b, Value x, Value target, double delta = 1, Reduction reduction = Reduction::mean);
// Binary cross entropy of probabilities; logarithms are held at -100 and above.
Value bce_loss(Builder& b, Value x, Value target, Reduction reduction = Reduction::mean);
// The same of logits: sigmoid and loss in one, without overflow.
Value bce_with_logits_loss(Builder& b, Value x, Value target, Reduction reduction = Reduction::mean);

}  // namespace plimsoll::program
