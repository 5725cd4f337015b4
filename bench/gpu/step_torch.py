"""Training steps of GPT-2 and ResNet-50 in PyTorch on a card: the peer of bench/gpu/step.cc.

usage: step_torch.py gpt2|resnet50 [--tokens N] [--batch N] [--seq N] [--precision bf16|tf32] [--mode eager|compile] [--rounds N]

Weights and optimizer state are f32, bf16 by autocast; fused AdamW; images in channels_last. Prints the median of whole
steps, and what was allocated and reserved at most.
"""
import argparse
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.c_attn(self.ln_1(x)).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        x = x + self.c_proj(y)
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, tokens=50257, positions=1024, width=768, layers=12, heads=12):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(tokens, width), nn.Embedding(positions, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        return self.ln_f(self.blocks(x)) @ self.wte.weight.t()


def workload(options):
    if options.model == "gpt2":
        batch, length = options.batch or 32, options.seq or 1024
        x = torch.randint(0, 50257, (batch, length), device="cuda")
        return Gpt2(options.tokens).cuda(), x, torch.randint(0, 50257, (batch * length,), device="cuda")
    import torchvision
    batch = options.batch or 256
    x = torch.rand(batch, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    return model, x, torch.randint(0, 1000, (batch,), device="cuda")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=["gpt2", "resnet50"])
    parser.add_argument("--tokens", type=int, default=50257, help="of GPT-2's vocabulary; 50304 is a multiple of 64")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--seq", type=int)
    parser.add_argument("--precision", default="bf16", choices=["bf16", "tf32"])
    parser.add_argument("--mode", default="eager", choices=["eager", "compile"])
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    model, x, target = workload(options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    run = torch.compile(model) if options.mode == "compile" else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=options.precision == "bf16"):
            loss = F.cross_entropy(run(x).flatten(0, -2), target)
        loss.backward()
        optimizer.step()

    for _ in range(4):
        step()
    torch.cuda.synchronize()
    times = []
    for _ in range(options.rounds):
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    tokens = f"{options.tokens} " if options.model == "gpt2" else ""
    print(f"torch {options.model} {tokens}{options.precision} {options.mode}: {statistics.median(times) * 1e3:.2f} ms a step, "
          f"{torch.cuda.max_memory_allocated() / 2**30:.2f} GiB allocated, {torch.cuda.max_memory_reserved() / 2**30:.2f} reserved")


main()
