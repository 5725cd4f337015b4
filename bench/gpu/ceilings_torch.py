"""What a card can do at best, by PyTorch: copies within it, products of matrices, copies to and from pinned host memory.

usage: ceilings_torch.py [OUT.json]
"""
import json
import statistics
import sys

import torch


def seconds(work, rounds=10):
    for _ in range(3):
        work()
    times = []
    for _ in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return statistics.median(times)


def product(dtype, size=8192):
    a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
    return 2 * size**3 / seconds(lambda: a @ b) / 1e12


def main():
    torch.backends.cuda.matmul.allow_tf32 = True
    a = torch.randn(1 << 29, device="cuda")
    b = torch.empty_like(a)
    bytes_moved = a.numel() * 4
    found = {"copy_tb_s": 2 * bytes_moved / seconds(lambda: b.copy_(a)) / 1e12}
    found["matmul_bf16_tflop_s"] = product(torch.bfloat16)
    found["matmul_tf32_tflop_s"] = product(torch.float32)
    host = torch.empty(1 << 28, pin_memory=True)
    part = b[: 1 << 28]
    found["to_card_gb_s"] = host.numel() * 4 / seconds(lambda: part.copy_(host, non_blocking=True)) / 1e9
    found["from_card_gb_s"] = host.numel() * 4 / seconds(lambda: host.copy_(part, non_blocking=True)) / 1e9
    for name, value in found.items():
        print(f"ceiling {name}: {value:.2f}")
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


main()
