"""plimsoll.torch.fit and max_batch on a simulated card: `plimsoll estimate -- python fit_card.py` ends with 0 where the peaks
of the fitted steps are those that were predicted."""

import torch
from torch import nn

import plimsoll.torch

layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
model = nn.TransformerEncoder(layer, 6).cuda()
optimizer = torch.optim.Adam(model.parameters())
batch = torch.empty(64, 256, 512, device="cuda")


def loss_of(x):
    return model(x).square().mean()


def step(samples):
    loss_of(torch.empty(samples, 256, 512, device="cuda")).backward()
    optimizer.step()
    optimizer.zero_grad()


largest = plimsoll.torch.max_batch(step, "4GiB")
assert 32 < largest < 64, largest  # 64 take 5 GiB, a quarter of it not by the batch

with plimsoll.torch.fit(model, "3500MiB", loss_of, batch, optimizer, most_micro_batches=1) as fitted:
    assert 0 < fitted.checkpointed <= 6, fitted
    for _ in range(2):
        fitted(batch)
        optimizer.step()
        optimizer.zero_grad()
    assert torch.cuda.max_memory_reserved() == fitted.peak.reserved_bytes, fitted
    assert fitted.peak.reserved_bytes + fitted.context_bytes <= 3500 << 20, fitted

try:
    plimsoll.torch.fit(model, "1GiB", loss_of, batch, optimizer, most_micro_batches=1)
except plimsoll.torch.DoesNotFit as refusal:
    assert 1 << 30 < refusal.least_bytes < 3 << 30, refusal
else:
    raise AssertionError("1 GiB is less than the context and the parameters with their state")
