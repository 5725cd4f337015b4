"""train.py, made to fit 12 GiB by plimsoll.torch.fit: two lines more."""

import plimsoll.torch
import torch
from train import BATCH, LENGTH, VOCABULARY, loss_of, model, optimizer

ids = torch.randint(0, VOCABULARY, (BATCH, LENGTH), device="cuda")
step = plimsoll.torch.fit(model, budget="12GiB", step=loss_of, batch=ids, optimizer=optimizer)
for number in range(10):
    loss = step(torch.randint(0, VOCABULARY, (BATCH, LENGTH), device="cuda"))
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {number}: loss {loss.item():.3f}")
