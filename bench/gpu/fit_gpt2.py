#!/usr/bin/env python3
"""GPT-2 of Hugging Face, 32 x 1024 tokens in bf16, made to fit a budget: the peak beside the prediction, time, losses.

    fit_gpt2.py [--budget SIZE] [--most N] [--deterministic] [--steps N] [--batch N] [--length N] [--after FILE]

Prints one line of JSON. Without a budget nothing is changed. With --after the steps wait until FILE is there, so that
several can search at once and be timed alone.
"""

import argparse
import json
import os
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

parser = argparse.ArgumentParser()
parser.add_argument("--budget")
parser.add_argument("--most", type=int, default=64, help="micro-batches at the most")
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--length", type=int, default=1024)
parser.add_argument("--dropout", type=float, default=0.1)
parser.add_argument("--deterministic", action="store_true", help="kernels whose sums do not vary from run to run")
parser.add_argument("--after", help="a file to wait for before the steps")
options = parser.parse_args()
if options.deterministic:
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.enable_cudnn_sdp(False)

torch.manual_seed(0)
torch.backends.cuda.matmul.allow_tf32 = True
d = options.dropout
config = GPT2Config(resid_pdrop=d, embd_pdrop=d, attn_pdrop=d)
model = GPT2LMHeadModel(config).to("cuda").train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
ids = torch.randint(0, 50257, (options.batch, options.length), device="cuda")


def loss_of(batch):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        return model(input_ids=batch, labels=batch).loss


def plain(batch):
    loss = loss_of(batch)
    loss.backward()
    return loss.detach()


step, found, began = plain, {}, time.time()
if options.budget:
    import plimsoll.torch

    step = plimsoll.torch.fit(
        model, budget=options.budget, step=loss_of, batch=ids, optimizer=optimizer, most_micro_batches=options.most
    )
    found = {
        "checkpointed": step.checkpointed,
        "micro_batches": step.micro_batches,
        "predicted_allocated": step.peak.allocated_bytes,
        "predicted_reserved": step.peak.reserved_bytes,
        "context": step.context_bytes,
        "search_seconds": round(time.time() - began, 1),
    }

while options.after and not os.path.exists(options.after):
    time.sleep(0.1)
torch.manual_seed(1)
losses, times = [], []
for _ in range(options.steps):
    torch.cuda.synchronize()
    began = time.perf_counter()
    losses.append(step(ids))
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
    times.append(time.perf_counter() - began)
free, total = torch.cuda.mem_get_info()
found.update(
    budget=options.budget,
    allocated=torch.cuda.max_memory_allocated(),
    reserved=torch.cuda.max_memory_reserved(),
    card_used=total - free,
    ms=round(1e3 * sorted(times)[len(times) // 2], 2),
    losses=[loss.item().hex() for loss in losses],
)
print(json.dumps(found))
