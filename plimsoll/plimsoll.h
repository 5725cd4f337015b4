// Plimsoll's front door: all that a program needs to train or run a model of its own within a memory budget.
//
//   #include <plimsoll/plimsoll.h>
//   namespace pl = plimsoll;
//
//   pl::Net net;
//   auto x = net.input("x", {pl::batch, 3, 32, 32});
//   x = relu(net, conv2d(net, "conv1", x, 64, 3, {.padding = 1}));
//   pl::Model model = classify(std::move(net), linear(net, "fc", global_avg_pool(net, x), 10));
//
//   pl::Training training(model, {.batch = 256, .budget = "2GiB", .optimizer = pl::adam(1e-3)});
//   float loss = training.step(pl::ArrayBatch({{"x", images}, {"target", labels}}));
#pragma once

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/oom.h"
#include "plimsoll/models/nn.h"
#include "plimsoll/models/onnx/load.h"
#include "plimsoll/models/zoo/zoo.h"
#include "plimsoll/train/batch.h"
#include "plimsoll/train/inference.h"
#include "plimsoll/train/training.h"

namespace plimsoll {

using models::load_onnx;
using models::Model;
using models::ModelInfo;
using models::Net;
using models::NetOptions;
using models::OnnxOptions;
using program::Scope;  // names of layers in a block: Scope scope(net.b, "layer1");
using program::Value;
using train::adafactor;
using train::adam;
using train::adamw;
using train::ArrayBatch;
using train::Batch;
using train::DoesNotFit;
using train::Inference;
using train::InferenceOptions;
using train::lion;
using train::momentum;
using train::Optimizer;
using train::sgd;
using train::Training;
using train::TrainingOptions;
using train::TrainingPlan;

// The number of samples, as a dimension of a model's inputs.
inline const program::Dim batch = Net::batch();
inline const program::Dim sequence = Net::sequence();

// A built-in model. ArgumentError that names models with similar names.
inline const ModelInfo& zoo(std::string_view name) { return models::find_model(name); }

}  // namespace plimsoll
