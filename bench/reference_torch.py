#!/usr/bin/env python3
"""Bytes of tensors that PyTorch has alive at most in the small reference programs, on the CPU: the column of
docs/reference-programs.md. Needs PyTorch; takes seconds."""
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional as f
from torch.nn.utils import prune
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/models/torch"))
from peers import Block, Gpt2  # noqa: E402


def start_of(event):
    """Old versions tell microseconds."""
    return event.start_ns() if hasattr(event, "start_ns") else event.start_us()


def peak_of(run):
    """The most bytes that are allocated while it runs, from none."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        kept = run()
    alive = most = 0
    for event in sorted(recorded.profiler.kineto_results.events(), key=start_of):
        if event.name() == "[memory]":
            alive += event.nbytes()
            most = max(most, alive)
    del kept
    return most


def p1():
    return torch.empty(10000, 1000)


def p2():
    x, w = torch.empty(17, 23, 31), torch.empty(31, 10)
    return x, w, x.reshape(391, 31) @ w


def p3():
    x = torch.empty(13, 19, 29)
    y = nn.Identity()(x)
    return x, torch.bmm(x, y.transpose(1, 2))


def step(model, x, loss_of):
    """The second one: state and gradients are there."""
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        loss_of(model(x)).backward()
        optimizer.step()
    return model, optimizer, x


def p4(batch):
    return lambda: step(nn.Linear(29, 10), torch.randn(batch, 29), lambda y: f.mse_loss(y, torch.randn(batch, 10)))


def p6(micro_batches):
    """A small GPT-2 with momentum, 8 samples of 9 tokens, the second step."""
    model = Gpt2(tokens=11, positions=9, layers=2, heads=2, width=6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    tokens = torch.zeros(8, 9, dtype=torch.long)
    for _ in range(2):
        optimizer.zero_grad()
        for part in tokens.chunk(micro_batches):
            f.cross_entropy(model(part).flatten(0, 1), part.flatten()).div(micro_batches).backward()
        optimizer.step()
    return model, optimizer, tokens


class SmallResNet(nn.Module):
    """The small form of ResNet-18 that the examples train: a block for each stage, width 3."""

    def __init__(self):
        super().__init__()
        self.start = nn.Sequential(nn.Conv2d(3, 3, 7, 2, 3, bias=False), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.stages = nn.Sequential(Block(3, 3, 1), Block(3, 6, 2), Block(6, 12, 2), Block(12, 24, 2))
        self.fc = nn.Linear(24, 7)

    def forward(self, x):
        return self.fc(self.stages(self.start(x)).mean((2, 3)))


def p7(dtype):
    target = torch.zeros(16, dtype=torch.long)

    def loss_of(y):
        return f.cross_entropy(y.float(), target)

    def run():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            return step(SmallResNet(), torch.randn(16, 3, 17, 17), loss_of)

    return run


def slim():
    return nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 128, 3, padding=1),
                         nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def state_bytes(model):
    return sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())


def p15():
    """Bytes of the slim form's weights, not the peak: as they are, pruned, and after the masks are gone."""
    model = slim()
    before = state_bytes(model)
    layers = [layer for layer in model if hasattr(layer, "weight")]
    for layer in layers:
        prune.ln_structured(layer, "weight", 0.3, n=1, dim=0)
    masked = state_bytes(model)
    for layer in layers:
        prune.remove(layer, "weight")
    return f"{before:,} bytes of weights, {masked:,} pruned with masks, {state_bytes(model):,} when the masks are gone"


def p9():
    widths = [64, 1000, 700, 900, 10]
    layers = [layer for a, b in zip(widths, widths[1:]) for layer in (nn.Linear(a, b), nn.ReLU())]
    model, x = nn.Sequential(*layers[:-1]), torch.randn(32, 64)
    with torch.no_grad():
        return model, x, model(x)


def convolutions(widths, batch):
    return lambda: train_convolutions(widths, batch)


def train_convolutions(widths, batch):
    layers, before = [], 3
    for group in widths:
        for width in group:
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU()]
            before = width
        layers.append(nn.MaxPool2d(2))
    model = nn.Sequential(*layers[:-1], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))
    target = torch.zeros(batch, dtype=torch.long)
    return step(model, torch.randn(batch, 3, 128, 128), lambda y: f.cross_entropy(y, target))


def p12():
    arrays = [torch.empty(100, 100, dtype=torch.float64) for _ in range(200)]
    return torch.stack(arrays).float()


def main():
    programs = {"P1": p1, "P2": p2, "P3": p3, **{f"P4, batch {n}": p4(n) for n in (1, 4, 17)},
                "P6, the whole batch": lambda: p6(1), "P6, 4 micro-batches": lambda: p6(4),
                "P7, f32": p7(torch.float32), "P7, bf16": p7(torch.bfloat16), "P9": p9, "P12": p12,
                "P13, batch 1": convolutions([[256] * 2, [512] * 2, [1024] * 2], 1),
                "P14, batch 4": convolutions([[64], [128]], 4)}
    print(f"PyTorch {torch.__version__}")
    for name, run in programs.items():
        print(f"{name}: {peak_of(run):,} bytes")
    print(f"P15, slim: {p15()}")


main()
