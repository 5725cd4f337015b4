"""Three whole training steps of a small network against PyTorch's optimizers."""
import torch
from torch.nn import functional

import harness
from harness import from_json, randint, randn, to_json

PROGRAM = """
input %x: f64[17,29]
input %t: i64[17]
parameter %w1: f64[13,29]
parameter %b1: f64[13]
parameter %w2: f64[10,13]
%h1 = linear(%x, %w1, %b1)
%h = tanh(%h1)
%logits = linear(%h, %w2)
%loss = cross_entropy(%logits, %t)
"""
RATE = 0.0625  # the same in f32 and f64
STEPS = 3


def torch_steps(make, clip_norm, batches, start):
    parameters = [p.clone().requires_grad_() for p in start.values()]
    optimizer = make(parameters)
    losses = []
    for x, t in batches:
        optimizer.zero_grad()
        w1, b1, w2 = parameters
        loss = functional.cross_entropy(torch.tanh(x @ w1.T + b1) @ w2.T, t)
        loss.backward()
        if clip_norm:
            torch.nn.utils.clip_grad_norm_(parameters, clip_norm)
        optimizer.step()
        losses.append(loss.detach())
    return losses, {name: p.detach() for name, p in zip(start, parameters)}


def our_steps(train, state, batches, start):
    values = {name: to_json(p) for name, p in start.items()}
    if "adam" in train["optimizer"]:
        values["optimizer.step"] = {"dtype": "i64", "shape": [], "data": [0]}
    for name, p in start.items():
        for part in state:
            values[f"optimizer.{name}.{part}"] = to_json(torch.zeros_like(p))
    values["optimizer.rate"] = {"dtype": "f32", "shape": [], "data": [RATE]}
    losses = []
    for x, t in batches:
        reply = harness.evaluator({"program": PROGRAM, "train": {"loss": "loss", **train}, "seeds": {}, "wanted": [],
                                   "inputs": {"x": to_json(x), "t": to_json(t), **values}})
        values.update(reply["after"])
        losses.append(from_json(reply["outputs"]["loss"], x))
    return losses, {name: from_json(values[name], p) for name, p in start.items()}


def compare_steps(make, train, state, clip_norm=None):
    start = {"w1": randn(13, 29), "b1": randn(13), "w2": randn(10, 13)}
    batches = [(randn(17, 29), randint(0, 10, 17)) for _ in range(STEPS)]
    if clip_norm:
        train = {**train, "clip_norm": clip_norm}
    losses, parameters = our_steps(train, state, batches, start)
    expected_losses, expected = torch_steps(make, clip_norm, batches, start)
    for i, (found, wanted) in enumerate(zip(losses, expected_losses)):
        harness.compare(f"the loss of step {i}", found, wanted, 1e-9)
    for name in start:
        harness.compare(f"%{name} after {STEPS} steps", parameters[name], expected[name], 1e-9)


OPTIMIZERS = {
    "sgd": (lambda p: torch.optim.SGD(p, RATE, weight_decay=0.01), {"optimizer": "sgd", "weight_decay": 0.01}, []),
    "momentum": (lambda p: torch.optim.SGD(p, RATE, momentum=0.8, weight_decay=0.01),
                 {"optimizer": "momentum", "momentum": 0.8, "weight_decay": 0.01}, ["velocity"]),
    "nesterov": (lambda p: torch.optim.SGD(p, RATE, momentum=0.8, nesterov=True),
                 {"optimizer": "momentum", "momentum": 0.8, "nesterov": True}, ["velocity"]),
    "adam": (lambda p: torch.optim.Adam(p, RATE, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.01),
             {"optimizer": "adam", "beta1": 0.8, "beta2": 0.95, "eps": 1e-6, "weight_decay": 0.01}, ["mean", "square"]),
    "adamw": (lambda p: torch.optim.AdamW(p, RATE, weight_decay=0.1), {"optimizer": "adamw", "weight_decay": 0.1},
              ["mean", "square"]),
}
for case, arguments in OPTIMIZERS.items():
    for limit in (None, 0.5):
        harness.told(f"{case} clipped at {limit}", compare_steps, *arguments, limit)
