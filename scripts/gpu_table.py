#!/usr/bin/env python3
"""Lines of bench_gpu_step and bench/gpu/step_torch.py as one table, and as JSON beside it: gpu_table.py OUT.json < lines."""
import json
import re
import sys

OURS = re.compile(r"(?P<model>\S+) (?P<precision>\S+) batch \d+ chunks (?P<chunks>\d+): (?P<ms>[\d.]+) ms a step .*"
                  r"arena (?P<memory>[\d.]+) (?P<unit>[KMG]iB)")
TORCH = re.compile(r"torch (?P<model>\S+) (?P<precision>\S+) (?P<mode>\S+): (?P<ms>[\d.]+) ms a step, "
                   r"(?P<memory>[\d.]+) GiB allocated, (?P<reserved>[\d.]+) reserved")
GIB = {"KiB": 2**-20, "MiB": 2**-10, "GiB": 1}

rows = []
for line in sys.stdin:
    if found := TORCH.match(line):
        rows.append({"model": found["model"], "precision": found["precision"], "of": f"PyTorch {found['mode']}",
                     "step_ms": float(found["ms"]), "memory_gib": float(found["memory"])})
    elif found := OURS.match(line):
        chunks = "" if found["chunks"] == "1" else f", last ops in {found['chunks']} chunks"
        rows.append({"model": found["model"], "precision": found["precision"], "of": f"Plimsoll{chunks}",
                     "step_ms": float(found["ms"]), "memory_gib": float(found["memory"]) * GIB[found["unit"]]})
    else:
        print(line.rstrip())
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(rows, file, indent=1)
print(f"{'model':<10} {'precision':<9} {'of':<34} {'ms a step':>9} {'GiB':>6}")
for row in rows:
    print(f"{row['model']:<10} {row['precision']:<9} {row['of']:<34} {row['step_ms']:>9.2f} {row['memory_gib']:>6.2f}")
