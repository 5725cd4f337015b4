#!/usr/bin/env python3
"""Trains on data in memory cgroups whose limit is the budget: data_check.py PLIMSOLL DRAW_DIGITS [--sweep].

LeNet on drawn digits, from a folder of images, in 64 MiB for the whole process: 97 % of the held-out ones, and neither
the process nor its cgroup above the budget. With --sweep also short runs with prefetch at 1, 1.2 and 2 times the
smallest budget, on the digits and on images of two megapixels, which readers need memory to decode: none is killed or
above its budget, and the losses are the same, to rounding where micro-batches differ. Without memory cgroups the same
runs without them. Exit status: 0 when all hold, 1 when one does not."""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from budget_check import MIB, Group, environment  # noqa: E402

LEAST_ACCURACY = 0.97
BUDGET = 64 * MIB


def run(command, limit, cache):
    """What it prints as JSON, the peak of its cgroup where there is one, and the output of a failure."""
    try:
        group = Group(limit)
    except OSError as error:
        print(f"without a memory cgroup: {error}")
        done, peak = subprocess.run(command, env=environment(cache), text=True, capture_output=True, check=False), None
    else:
        with group:
            done, peak = group.run(command, environment(cache)), group.peak_bytes()
    text = done.stdout
    if done.returncode != 0 or "{" not in text:
        return None, peak, f"{' '.join(command)}\nexited {done.returncode}\n{text}{done.stderr}"
    return json.loads(text[text.index("{") :]), peak, ""


def digits(binary, folder, cache):
    command = [binary, "train", "lenet", "--data", f"{folder}/train", "--eval-data", f"{folder}/test", "--epochs", "3",
               "--budget", str(BUDGET), "--lr", "2e-3", "--threads", "1", "--json"]
    found, peak, failure = run(command, BUDGET, cache)
    if failure:
        print(failure)
        return False
    held = f", cgroup {peak / MIB:.1f} MiB" if peak else ""
    print(f"lenet on digits: accuracy {found['eval_accuracy']:.2%} in {found['process_peak_bytes'] / MIB:.1f} MiB{held}, "
          f"predicted {found['predicted_peak_bytes'] / MIB:.1f} MiB")
    return found["eval_accuracy"] >= LEAST_ACCURACY and found["process_peak_bytes"] <= BUDGET


def write_png(path, width, height, shade):
    """Gray, each row a little lighter."""
    rows = b"".join(b"\0" + bytes([(shade + row // 8) % 256]) * width for row in range(height))
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def make_large(folder):
    for i in range(96):
        os.makedirs(f"{folder}/{i % 10}", exist_ok=True)
        write_png(f"{folder}/{i % 10}/{i}.png", 1600, 1200, i % 10 * 20)


def sweep(binary, folder, cache, batch, steps):
    command = [binary, "train", "lenet", "--data", folder, "--batch", str(batch), "--steps", str(steps), "--prefetch",
               "3", "--workers", "2", "--threads", "1", "--json"]
    refused = subprocess.run([*command[:-1], "--budget", "1MiB"], env=environment(cache), text=True,
                             capture_output=True, check=False)
    smallest = re.search(r"smallest budget: .*?\(([\d,]+) bytes\)", refused.stdout + refused.stderr)
    if not smallest:
        print(f"no smallest budget:\n{refused.stdout}{refused.stderr}")
        return False
    least = int(smallest.group(1).replace(",", ""))
    losses, good = [], True
    for multiple in (1.0, 1.2, 2.0):
        budget = int(least * multiple)
        found, peak, failure = run([*command, "--budget", str(budget)], budget, cache)
        if failure:
            print(failure)
            good = False
            continue
        losses.append([step["loss"] for step in found["steps"]])
        print(f"{multiple:.1f} x the smallest budget: {budget / MIB:.1f} MiB, process "
              f"{found['process_peak_bytes'] / MIB:.1f} MiB, cgroup {(peak or 0) / MIB:.1f} MiB, micro-batches "
              f"{len(found['micro_batches'])}, losses {losses[-1][0]:.5f} .. {losses[-1][-1]:.5f}")
        good = good and found["process_peak_bytes"] <= budget
    apart = max((abs(a - b) / b for one in losses for a, b in zip(one, losses[0])), default=1)
    print(f"losses at most {apart:.1e} apart")
    return good and apart < 1e-3


def main():
    binary, draw = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([draw, f"{folder}/digits"], check=True, stdout=subprocess.DEVNULL)
        good = digits(binary, f"{folder}/digits", f"{folder}/cache")
        if "--sweep" in sys.argv:
            good = sweep(binary, f"{folder}/digits/train", f"{folder}/cache", 512, 6) and good
            make_large(f"{folder}/large")
            good = sweep(binary, f"{folder}/large", f"{folder}/cache", 32, 3) and good
    sys.exit(0 if good else 1)


main()
