#!/usr/bin/env python3
"""Reads what scripts/gpu_torch.sh logged and says what it means side by side, then what of the promises of docs/exec.md and
docs/pytorch.md holds: compare_pool.py LOG [--json FILE]"""
import json
import sys

GIB = 2.0**30


def read(path):
    found = {"RESULT": {}, "FIT": {}, "DIED": {}}
    for line in open(path, errors="replace"):
        kind, _, rest = line.partition(" ")
        if kind in found and rest.startswith("{"):
            entry = json.loads(rest)
            name = f"{entry['workload']}/{entry['label']}" if kind == "RESULT" else entry["name"]
            found[kind][name] = entry
    return found


def same_losses(a, b):
    """Equal to the bit as far as both went; None where there is nothing to compare."""
    if not a or not b:
        return None
    count = min(len(a["losses"]), len(b["losses"]))
    return a["losses"][:count] == b["losses"][:count] if count else None


def print_runs(results):
    print(f"{'run':<32}{'steps':>6}{'ms/step':>9}{'allocated':>11}{'reserved':>10}{'ratio':>7}  losses")
    for name, result in results.items():
        if "losses" not in result:
            continue
        base = next((results[f"{result['workload']}/{label}"] for label in ("native", "tight_native", "plain1")
                     if f"{result['workload']}/{label}" in results), None)
        same = {True: "equal", False: "DIFFERENT", None: "-"}[same_losses(result, base)]
        print(f"{name:<32}{result['steps']:>6}{result['step_ms']:>9.2f}{result['peak_allocated'] / GIB:>10.3f}G"
              f"{result['peak_reserved'] / GIB:>9.3f}G"
              f"{result['peak_reserved'] / max(1, result['peak_allocated']):>7.3f}  {same}"
              + (f"  OOM caught: {result['oom_caught']}" if result["oom_caught"] is not None else "")
              + (f"  DIED at step {result['died']['step']}" if result["died"] else ""))


class Table:
    def __init__(self):
        self.rows = []

    def add(self, what, holds, found):
        self.rows.append((what, holds, found))
        print(f"{'PASS' if holds else 'FAIL' if holds is not None else 'none'}  {what:<58} {found}")


def judge_exec(found, table):
    results = found["RESULT"]
    for workload in ("gpt2_large_batch", "resnet50"):
        plain = [results.get(f"{workload}/plain{n}", {}).get("step_ms") for n in (1, 2)]
        under = [results.get(f"{workload}/exec{n}", {}).get("step_ms") for n in (1, 2)]
        if None in plain + under:
            table.add(f"exec overhead on {workload} <= 2 %", None, "not run")
            continue
        ratio = min(under) / min(plain)
        table.add(f"exec overhead on {workload} <= 2 %", ratio <= 1.02,
                  f"{100 * (ratio - 1):+.2f} %  plain {plain[0]:.2f} {plain[1]:.2f}, exec {under[0]:.2f} {under[1]:.2f} ms")
    for name, what in (("capped", "capped GPT-2 is explained in <= 5 s, status 1, its exception"),
                       ("leak", "a leak is named")):
        died = found["DIED"].get(name)
        holds = died and died["status"] == 1 and died["exception"] and (died["seconds"] or 99) <= 5
        if name == "leak":
            holds = holds and died["names_leak"]
        table.add(what, holds, died or "not run")


def judge_pool(found, table):
    results = found["RESULT"]
    kinds = [name[: -len("/native")] for name in results if name.endswith("/native") and "losses" in results[name]]
    for kind in kinds:
        native, pool = results[f"{kind}/native"], results.get(f"{kind}/pool")
        if pool is None:
            table.add(f"{kind} under --pool", None, "not run")
            continue
        ratio = pool["peak_reserved"] / pool["peak_allocated"]
        time = pool["step_ms"] / native["step_ms"]
        same = same_losses(native, pool)
        table.add(f"{kind} under --pool: ratio <= 1.01, losses, time", ratio <= 1.01 and same and
                  time <= (1.0 if native["varies"] else 1.01),
                  f"{ratio:.4f} (native {native['peak_reserved'] / native['peak_allocated']:.3f}), "
                  f"{'equal' if same else 'DIFFERENT'}, {time:.4f} x {native['step_ms']:.2f} ms")
    caught, tight = results.get("varying/oom_caught"), results.get("varying/tight_pool")
    if caught:
        table.add("an OutOfMemoryError is caught and training goes on", caught["oom_caught"] and caught["steps"] == 60 and
                  same_losses(caught, tight) is not False, f"{caught['steps']} steps, caught {caught['oom_caught']}")
    dead = results.get("varying/tight_native")
    if tight and dead:
        table.add("1,000 varying steps in a budget where native dies", tight["steps"] == 1000 and dead["died"] is not None
                  and same_losses(tight, dead), f"pool {tight['steps']} steps, {tight['step_ms']:.2f} ms; native dies at "
                  f"{(dead['died'] or {}).get('step')}, {dead['step_ms']:.2f} ms")


def judge_fit(found, table):
    fits = found["FIT"]
    whole = fits.get("whole")
    for name in ("fit24", "fit16"):
        fit = fits.get(name)
        if not fit or not whole:
            table.add(f"{name}: GPT-2 32 x 1024", None, "not run")
            continue
        error = max(abs(fit["predicted_" + k] / fit[k] - 1) for k in ("allocated", "reserved"))
        budget = int(name[3:]) * GIB
        table.add(f"{name}: fits, within 1 % of its prediction, <= 1.25 x", error <= 0.01 and fit["card_used"] <= budget
                  and fit["ms"] <= 1.25 * whole["ms"],
                  f"{fit['micro_batches']} micro-batches, {fit['checkpointed']} checkpointed, {fit['reserved'] / GIB:.2f} GiB, "
                  f"card {fit['card_used'] / GIB:.2f} GiB, error {100 * error:.3f} %, {fit['ms']} ms "
                  f"({fit['ms'] / whole['ms']:.3f} x), search {fit['search_seconds']} s")
    a, b = fits.get("checkpointed"), fits.get("whole_deterministic")
    if a and b:
        table.add("fit by checkpointing alone: losses equal to the bit", same_losses(a, b), f"{a['checkpointed']} of 12 blocks")


def main():
    found = read(sys.argv[1])
    print_runs(found["RESULT"])
    for name, result in found["RESULT"].items():
        if "checks" in result:
            print(name, json.dumps(result["checks"]))
    print()
    table = Table()
    for judge in (judge_exec, judge_pool, judge_fit):
        judge(found, table)
    if "--json" in sys.argv:
        with open(sys.argv[sys.argv.index("--json") + 1], "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
