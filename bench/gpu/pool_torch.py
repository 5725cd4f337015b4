#!/usr/bin/env python3
"""Training steps of PyTorch on a GPU, the same whatever allocator is under it: prints one JSON line with the losses to
the bit, the time of a step and the peaks. Run it plain, under the preload library, and under the hook of
`plimsoll exec`, and compare.

  pool_torch.py resnet50|varying|gpt|checks [--steps N] [--batch N] [--cap BYTES] [--oom-at STEP] [--fail] [--label TEXT]
"""
import argparse
import json
import random
import struct
import subprocess
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


def resnet_steps(args):
    import torchvision
    model = torchvision.models.resnet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(args.batch or 64, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (args.batch or 64,), device="cuda")

    def step(index):
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss
    return step


def gpt_steps(args):
    model = Gpt().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    draw = random.Random(7)
    lengths = [draw.randrange(64, 1025) if args.workload == "varying" else 1024 for _ in range(4096)]
    batches = [draw.randrange(4, 17) if args.workload == "varying" else args.batch or 8 for _ in lengths]

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


def run_steps(args):
    step = resnet_steps(args) if args.workload == "resnet50" else gpt_steps(args)
    losses, caught, died = [], None, None
    warm = min(5, args.steps // 2)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for index in range(args.steps):
        if index == warm:
            torch.cuda.synchronize()
            start = time.perf_counter()
        if index == args.oom_at:
            caught = try_too_much()
        try:
            losses.append(step(index))
        except torch.cuda.OutOfMemoryError as error:
            if args.fail:
                raise
            died = {"step": index, "message": str(error)[:300]}
            break
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    timed = max(1, len(losses) - warm)
    return {"steps": len(losses), "step_ms": 1000 * seconds / timed, "oom_caught": caught, "died": died,
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=["resnet50", "varying", "gpt", "checks"])
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--cap", type=int, default=0, help="bytes for PyTorch's allocator, by its own fraction")
    parser.add_argument("--oom-at", type=int, default=-1)
    parser.add_argument("--fail", action="store_true", help="let the out-of-memory error end the program")
    parser.add_argument("--label", default="")
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    total = torch.cuda.get_device_properties(0).total_memory
    if args.cap:
        torch.cuda.set_per_process_memory_fraction(args.cap / total, 0)
    result = {"label": args.label, "workload": args.workload, "torch": torch.__version__,
              "backend": torch.cuda.memory.get_allocator_backend(), "cap": args.cap}
    result |= run_checks(args) if args.workload == "checks" else run_steps(args)
    result["peak_allocated"] = torch.cuda.max_memory_allocated()
    result["peak_reserved"] = torch.cuda.max_memory_reserved()
    result["card_used"] = card_used()
    print("RESULT " + json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
