// From a model's step and a budget for the process to a session within it, with what is spilled in a folder if there is
// one.
#pragma once

#include <string>
#include <variant>

#include "plimsoll/train/alternatives.h"
#include "plimsoll/train/fit.h"
#include "plimsoll/train/model_forms.h"

namespace plimsoll::train {

// With results in a spill file where a folder for one is given and that is fastest; with the optimizer's state there,
// too, where nothing else will do: neither does 8 bits, where that is allowed, which costs less time. `state` may ask
// for state in f32, or in 8 bits where that is allowed, because it is to be read from a checkpoint.
std::variant<Fit, NoFit> fit_model(const ModelForms& model, const std::string& spill_dir, const Budget& budget,
                                   StateForm state = StateForm::any, const Peers& peers = {});

// The same training within another budget; what it keeps is on the disk meanwhile.
std::variant<Fit, NoFit> refit_model(const ModelForms& model, const std::string& spill_dir, const Budget& budget,
                                     Fit& fit);

// What would fit in the arena that the budget leaves.
std::vector<Alternative> alternatives_to(const ModelForms& model, const std::string& spill_dir, const Budget& budget,
                                         const NoFit& no_fit);

// The message of a refusal, in bytes of the whole process: the smallest budget, what sets it, and what would fit.
std::string refusal_text(const ModelForms& model, const Budget& budget, const NoFit& no_fit,
                         const std::vector<Alternative>& ways);

// "--batch 8 (1.97 GiB, 41.0 ms a sample) | --allow batch-norm-micro-batches (1.99 GiB, 52.3 ms a sample, changes ..)"
std::string alternatives_text(const std::vector<Alternative>& ways);

}  // namespace plimsoll::train
