// Updates of parameters by their gradients, with the same ops as planned training steps.
#pragma once

#include "plimsoll/run/eager/context.h"

namespace plimsoll::eager {

struct AdamOptions {
  double rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

class Adam {
 public:
  // Takes the memory for the moments of all parameters now, so that no step can want for it.
  Adam(Context& context, std::vector<Tensor> parameters, const AdamOptions& options = {});

  // Updates all parameters that have a gradient.
  void step();
  void clear_grads();
  void set_rate(double rate) { rate_.write(std::vector{static_cast<float>(rate)}); }

 private:
  struct Moments {
    Tensor mean;
    Tensor square;
  };

  Context& context_;
  std::vector<Tensor> parameters_;
  AdamOptions options_;
  std::vector<Moments> moments_;  // for each parameter
  Tensor steps_;                  // i64[]
  Tensor rate_;                   // f32[]
};

// w - rate * gradient, for all parameters that have one.
class Sgd {
 public:
  Sgd(Context& context, std::vector<Tensor> parameters, double rate);

  void step();
  void clear_grads();

 private:
  Context& context_;
  std::vector<Tensor> parameters_;
  Tensor rate_;
};

}  // namespace plimsoll::eager
