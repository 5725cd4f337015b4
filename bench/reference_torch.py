#!/usr/bin/env python3
"""Bytes of tensors that PyTorch has alive at most in the small reference programs, on the CPU: the column of
docs/reference-programs.md. Needs PyTorch; takes seconds."""
import torch
from torch import nn
from torch.nn import functional as f
from torch.profiler import ProfilerActivity, profile


def peak_of(run):
    """The most bytes that are allocated while it runs, from none."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        kept = run()
    alive = most = 0
    for event in sorted(recorded.profiler.kineto_results.events(), key=lambda e: e.start_ns()):
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
    programs = {"P1": p1, "P2": p2, "P3": p3, "P9": p9, "P12": p12, **{f"P4, batch {n}": p4(n) for n in (1, 4, 17)},
                "P14, batch 4": convolutions([[64], [128]], 4), "P13, batch 1": convolutions([[256] * 2, [512] * 2, [1024] * 2], 1)}
    for name, run in programs.items():
        print(f"{name}: {peak_of(run):,} bytes")


main()
