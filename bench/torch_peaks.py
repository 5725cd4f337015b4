#!/usr/bin/env python3
"""Peaks that `plimsoll estimate` predicts for training scripts, beside those measured on the card.

    torch_peaks.py [--worst ALLOCATED RESERVED] [--golden FILE] PLIMSOLL PYTHON FOLDER [NAME ...]

FOLDER has the scripts and measured.json: for each `case` the peaks `peak_allocated` and `peak_reserved`. PYTHON is one
with PyTorch, the version that was measured if possible. Ends with 1 when a script fails or an error is above --worst
(0.03 and 0.05 unless said). The script's seconds begin once PyTorch is imported. --golden: estimates by version of
PyTorch and cuDNN; those of a version that is in the file must be these to the byte.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def estimate(binary, python, script):
    """The answer, or none and why; wall and processor seconds."""
    began, used = time.time(), processor_seconds()
    done = subprocess.run(
        [binary, "estimate", "--json", "--", python, script], capture_output=True, text=True, timeout=600
    )
    seconds = (time.time() - began, processor_seconds() - used)
    if done.returncode not in (0, 1):  # 1: does not fit
        return None, done.stderr.strip().splitlines()[-1:], seconds
    return json.loads(done.stdout), "", seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worst", nargs=2, type=float, default=(0.03, 0.05))
    parser.add_argument("--golden")
    for name in ("binary", "python", "folder"):
        parser.add_argument(name)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    binary, python, folder = options.binary, options.python, options.folder
    measured = {entry["case"]: entry for entry in json.load(open(os.path.join(folder, "measured.json")))}
    errors = {"allocated": [], "reserved": []}
    golden = json.load(open(options.golden)) if options.golden else {}
    failed = 0
    print(f"{'script':28} {'allocated':>14} {'error':>8} {'reserved':>14} {'error':>8} {'script s':>9} {'whole s':>8} {'cpu s':>6}")
    for case in options.names or sorted(measured):
        result, why, (seconds, used) = estimate(binary, python, os.path.join(folder, case + ".py"))
        if result is None:
            failed += 1
            print(f"{case:28} failed: {why}", flush=True)
            continue
        columns = []
        found = [result["peak_allocated_bytes"], result["peak_reserved_bytes"]]
        expected = golden.get(f"torch {result['torch']}, cuDNN {result['cudnn']}", {}).get(case, found)
        if found != expected:
            failed += 1
            print(f"{case}: {found} with torch {result['torch']}, cuDNN {result['cudnn']}; golden: {expected}")
        for kind in errors:
            predicted, real = result[f"peak_{kind}_bytes"], measured[case][f"peak_{kind}"]
            errors[kind].append((predicted - real) / real)
            columns.append(f"{predicted:>14,} {100 * errors[kind][-1]:>+7.2f}%")
        print(f"{case:28} {' '.join(columns)} {result['seconds']:>9.1f} {seconds:>8.1f} {used:>6.1f}", flush=True)
    for kind, found in errors.items():
        sizes = [abs(e) for e in found] or [0]
        print(f"{kind}: median error {100 * statistics.median(sizes):.2f} %, worst {100 * max(sizes):.2f} %")
    print(f"failed: {failed} of {failed + len(errors['allocated'])}")
    too_large = any(max(map(abs, found), default=0) > worst for found, worst in zip(errors.values(), options.worst))
    return 1 if failed or too_large else 0


if __name__ == "__main__":
    sys.exit(main())
