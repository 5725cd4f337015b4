#!/usr/bin/env python3
"""What scripts/gpu.sh left in a folder as one table, and as JSON beside it: gpu_table.py OUT."""
import json
import pathlib
import re
import sys

OURS = re.compile(r"(?P<model>\S+) (?P<precision>\S+) batch \d+ chunks (?P<chunks>\d+)(?P<more>[^:]*): "
                  r"(?P<ms>[\d.]+) ms a step .*arena (?P<memory>[\d.]+) (?P<unit>[KMG]iB)")
PREDICTED = re.compile(r"  predicted (?P<ms>[\d.]+) ms")
TORCH = re.compile(r"torch (?P<model>\S+) (?P<tokens>\d+ )?(?P<precision>\S+) (?P<mode>\S+): (?P<ms>[\d.]+) ms a step, "
                   r"(?P<memory>[\d.]+) GiB allocated, (?P<reserved>[\d.]+) reserved")
GIB = {"KiB": 2**-20, "MiB": 2**-10, "GiB": 1}


def steps_of(lines):
    rows, predicted = [], None
    for line in lines:
        if found := PREDICTED.match(line):
            predicted = float(found["ms"])
        elif found := TORCH.match(line):
            tokens = found["tokens"] or ""
            rows.append({"model": f"{found['model']} {tokens}".strip(), "precision": found["precision"],
                         "of": f"PyTorch {found['mode']}", "step_ms": float(found["ms"]),
                         "memory_gib": float(found["memory"]), "reserved_gib": float(found["reserved"])})
        elif found := OURS.match(line):
            chunks = "" if found["chunks"] == "1" else f", last ops in {found['chunks']} chunks"
            row = {"model": found["model"], "precision": found["precision"], "of": f"Plimsoll{found['more']}{chunks}",
                   "step_ms": float(found["ms"]), "memory_gib": float(found["memory"]) * GIB[found["unit"]]}
            if predicted:
                row["predicted_ms"] = predicted
            rows.append(row)
            predicted = None
    return rows


def main():
    folder = pathlib.Path(sys.argv[1])
    found = {}
    for name in ("ceilings", "gpu_check", "torch"):
        if (folder / f"{name}.json").exists():
            found[name] = json.loads((folder / f"{name}.json").read_text())
    found["steps"] = steps_of((folder / "steps.txt").read_text().splitlines())
    (folder / "gpu.json").write_text(json.dumps(found, indent=1))
    for name, value in found.get("ceilings", {}).items():
        print(f"{name:<24} {value:>9.2f}")
    print(f"{'model':<11} {'precision':<9} {'of':<44} {'ms a step':>9} {'predicted':>9} {'GiB':>6}")
    for row in found["steps"]:
        predicted = f"{row['predicted_ms']:.2f}" if "predicted_ms" in row else ""
        print(f"{row['model']:<11} {row['precision']:<9} {row['of']:<44} {row['step_ms']:>9.2f} {predicted:>9} "
              f"{row['memory_gib']:>6.2f}")


main()
