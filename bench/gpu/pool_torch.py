#!/usr/bin/env python3
"""Training steps of PyTorch on a GPU, the same whatever allocator is under it: prints one JSON line a workload with the
losses to the bit, the time of a step and the peaks. Run it plain, under the preload library, and under the hook of
`plimsoll exec`, and compare (compare_pool.py).

  pool_torch.py WORKLOAD[,WORKLOAD...] [--steps N] [--batch N] [--cap BYTES] [--oom-at STEP] [--fail] [--label TEXT]

Several workloads run one after another in the process, each from an empty cache.
"""
import argparse
import gc
import json
import random
import statistics
import struct
import subprocess
import sys
import time

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        # Written out: its backward repeats to the bit, and the scores are what makes lengths matter.
        scores = (q @ k.transpose(-1, -2)) * (q.shape[-1] ** -0.5)
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary=8192, width=768, layers=12, heads=12, longest=1024):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class WideCnn(nn.Module):
    """Few, large activations of many sizes: hard on a cache of segments."""

    def __init__(self):
        super().__init__()
        widths = (3, 96, 192, 384, 768)
        self.layers = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in zip(widths, widths[1:]))
        self.head = nn.Linear(768, 10)

    def forward(self, x):
        for layer in self.layers:
            x = nn.functional.max_pool2d(layer(x).relu(), 2)
        return self.head(x.mean((2, 3)))


def image_steps(args, model, batch, sizes, classes=1000):
    """Steps over images; `sizes` are gone through again and again."""
    model = model.cuda().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    inputs = {}

    def step(index):
        size = sizes[index % len(sizes)]
        if size not in inputs:
            torch.manual_seed(size)
            inputs[size] = (torch.randn(batch, 3, size, size, device="cuda"),
                            torch.randint(0, classes, (batch,), device="cuda"))
        images, labels = inputs[size]
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss
    return step


def vision_steps(name, batch, sizes=(224,)):
    def make(args):
        import torchvision
        with torch.device("cuda"):
            model = getattr(torchvision.models, name)()
        return image_steps(args, model, args.batch or batch, sizes)
    return make


def gpt2_steps(batches, lengths, dropout=0.0, attention="eager"):
    """Hugging Face's GPT-2 on shapes that are drawn, or on one. Eager attention repeats to the bit."""
    def make(args):
        import transformers
        torch.backends.cuda.enable_flash_sdp(attention == "sdpa")
        with torch.device("cuda"):
            config = transformers.GPT2Config(resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout)
            config._attn_implementation = attention
            model = transformers.GPT2LMHeadModel(config)
        model.train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        draw = random.Random(11)
        shapes = [(draw.choice(batches), draw.choice(lengths)) for _ in range(512)]

        def step(index):
            torch.manual_seed(index)
            ids = torch.randint(5, 30000, shapes[index], device="cuda")
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return loss
        return step
    return make


def leak_steps(args):
    """Every output is kept, with the graph that made it."""
    model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    history = []

    def step(index):
        loss = model(torch.randn(4096, 1024, device="cuda")).square().mean()
        history.append(loss)  # the leak: loss.detach() would hold four bytes
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        return loss.detach()
    return step


def gpt_steps(args, varying=False):
    model = Gpt().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    draw = random.Random(7)
    lengths = [draw.randrange(64, 1025) if varying else 1024 for _ in range(4096)]
    batches = [draw.randrange(4, 17) if varying else args.batch or 8 for _ in lengths]

    def step(index):
        torch.manual_seed(index)
        ids = torch.randint(0, 8192, (batches[index], lengths[index]), device="cuda")
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(ids)
            loss = nn.functional.cross_entropy(logits.view(-1, 8192).float(), ids.view(-1))
        loss.backward()
        optimizer.step()
        return loss
    return step


def varying_steps(args):
    return gpt_steps(args, varying=True)


# What makes the steps, how many there are unless said, and whether shapes vary.
WORKLOADS = {
    "resnet50": (vision_steps("resnet50", 64), 40, False),
    "vgg16": (vision_steps("vgg16", 64), 25, False),
    "densenet121": (vision_steps("densenet121", 32), 30, False),
    "widecnn": (lambda args: image_steps(args, WideCnn(), 32, (224,), classes=10), 25, False),
    "vit": (vision_steps("vit_b_16", 64), 25, False),
    "gpt": (gpt_steps, 40, False),
    "gpt2": (gpt2_steps([8], [1024]), 25, False),
    "resnet50_sizes": (vision_steps("resnet50", 32, range(160, 353, 32)), 150, True),
    "gpt2_lengths": (gpt2_steps(range(2, 13), range(64, 1025, 32)), 150, True),
    "densenet121_sizes": (vision_steps("densenet121", 16, range(160, 353, 32)), 150, True),
    "varying": (varying_steps, 120, True),
}
OTHERS = {
    "leak": (leak_steps, 400, False),
    "gpt2_large_batch": (gpt2_steps([32], [1024], dropout=0.1, attention="sdpa"), 20, False),
}


def try_too_much():
    """True when PyTorch raised its own error for far too much memory, in one tensor and in many."""
    caught = 0
    try:
        torch.empty(1 << 45, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        caught += 1
    held = []
    try:
        while True:
            held.append(torch.empty(512 << 20, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        caught += 1
    return caught == 2


def run_steps(args, workload):
    make, count, varies = {**WORKLOADS, **OTHERS}[workload]
    count = args.steps or count
    step = make(args)
    losses, times, caught, died = [], [], None, None
    for index in range(count):
        if index == args.oom_at:
            caught = try_too_much()
        torch.cuda.synchronize()
        start = time.perf_counter()
        try:
            losses.append(step(index))
        except torch.cuda.OutOfMemoryError as error:
            if args.fail:
                print(f"OOM_AT {time.time():.3f}", file=sys.stderr, flush=True)
                raise
            died = {"step": index, "message": str(error)[:300]}
            break
        torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - start))
    timed = times[min(5, count // 2):] or [0.0]
    step_ms = statistics.mean(timed) if varies else statistics.median(timed)
    quarter = max(1, len(times) // 4)
    return {"steps": len(losses), "step_ms": step_ms, "last_ms": statistics.mean(times[-quarter:] or [0.0]), "varies": varies, "oom_caught": caught, "died": died,
            "losses": [struct.pack(">f", loss.item()).hex() for loss in losses]}


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.full((4,), float(index))


def run_checks(args):
    """What PyTorch does with memory beside plain steps."""
    checks = {}
    x = torch.randn(1024, 1024, device="cuda")
    stream = torch.cuda.Stream()
    wrong = 0
    for index in range(200):  # blocks that another stream uses last
        a = torch.full((1 << 20,), float(index), device="cuda")
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(20):
                b = a * 1.0
            total = b[:1000].sum()
        a.record_stream(stream)
        del a
        torch.full((1 << 20,), -1.0, device="cuda")
        wrong += int(total.item() != 1000.0 * index)
    checks["record_stream_wrong"] = wrong
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2)
    checks["loader_sum"] = sum(float(batch.cuda().sum()) for batch in loader)
    before = torch.cuda.memory_allocated()
    y = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
    checks["allocated_growth"] = torch.cuda.memory_allocated() - before
    del y
    torch.cuda.empty_cache()
    checks["reserved_after_empty_cache"] = torch.cuda.memory_reserved()
    checks["mem_get_info"] = torch.cuda.mem_get_info()
    try:
        graph = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            (x @ x).relu()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            z = (x @ x).relu() + 1
        graph.replay()
        torch.cuda.synchronize()
        checks["graph_equal"] = bool(torch.equal(z, (x @ x).relu() + 1))
        del z, graph
    except Exception as error:
        checks["graph_error"] = str(error)[:300]
    torch.cuda.synchronize()
    w = torch.ones(1 << 20, device="cuda")
    checks["after_graph"] = float(w.sum())
    torch.backends.cudnn.benchmark = True
    conv = nn.Conv2d(64, 64, 3, padding=1).cuda()
    checks["cudnn_benchmark"] = conv(torch.ones(8, 64, 64, 64, device="cuda")).abs().sum().item() > 0
    return {"checks": checks}


def card_used():
    """Bytes in use on the card by everyone, as nvidia-smi tells; the budget is about these."""
    line = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        return int(subprocess.run(line, capture_output=True, text=True).stdout.split()[0]) << 20
    except (OSError, ValueError, IndexError):
        return None


def run_workload(args, workload):
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.manual_seed(1)
    result = {"label": args.label, "workload": workload, "torch": torch.__version__,
              "backend": torch.cuda.memory.get_allocator_backend(), "cap": args.cap}
    result |= run_checks(args) if workload == "checks" else run_steps(args, workload)
    result["peak_allocated"] = torch.cuda.max_memory_allocated()
    result["peak_reserved"] = torch.cuda.max_memory_reserved()
    result["card_used"] = card_used()
    print("RESULT " + json.dumps(result), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("workloads", help=f"of {', '.join([*WORKLOADS, *OTHERS])}, checks")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--cap", type=int, default=0, help="bytes for PyTorch's allocator, by its own fraction")
    parser.add_argument("--oom-at", type=int, default=-1)
    parser.add_argument("--fail", action="store_true", help="let the out-of-memory error end the program")
    parser.add_argument("--label", default="")
    args = parser.parse_args()
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
    total = torch.cuda.get_device_properties(0).total_memory
    if args.cap:
        torch.cuda.set_per_process_memory_fraction(args.cap / total, 0)
    for workload in args.workloads.split(","):
        run_workload(args, workload)


if __name__ == "__main__":
    main()
