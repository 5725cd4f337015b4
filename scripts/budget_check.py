#!/usr/bin/env python3
"""Trains in memory cgroups whose limit is the budget, at and above the smallest budget that a refusal names.

Each configuration runs at the smallest budget and at multiples of it, with an empty cost cache and with the one that
this left. A run fails the check when it is killed or refused, when its cgroup or its process held more than was
predicted, or when more than the budget was predicted. Exit status: 0 when all hold, 1 when one does not, 77 where no
memory cgroup can be made.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
NO_GROUPS = 77
MULTIPLES = (1, 1.02, 1.1, 1.5, 3)

# Arguments of `plimsoll train`: models of all kinds, small enough that a run takes a few seconds on two cores.
CONFIGURATIONS = (
    "mlp --batch 64 --optimizer adam",
    "mlp --batch 512 --optimizer sgd --precision bf16",
    "mlp --batch 32 --optimizer momentum --threads 1",
    "lenet --batch 16 --optimizer sgd",
    "lenet --batch 60 --optimizer momentum",
    "lenet --batch 64 --optimizer adam --precision f16",
    "p14 --batch 2 --optimizer adam",
    "p14 --batch 4 --optimizer sgd --threads 1",
    "p14 --batch 6 --optimizer momentum --precision bf16",
    "p13 --batch 1 --optimizer sgd",
    "gpt2-nano --batch 4 --seq 32 --optimizer adam",
    "gpt2-nano --batch 2 --seq 256 --optimizer adamw",
    "gpt2-nano --batch 8 --seq 64 --optimizer sgd --precision bf16",
    "gpt2-nano --batch 2 --seq 32 --optimizer adam --allow 8-bit-state",
    "resnet18 --batch 1 --optimizer sgd",
    "resnet18 --batch 2 --optimizer momentum --allow batch-norm-micro-batches",
    "resnet50 --batch 1 --optimizer sgd",
    "mobilenet_v2 --batch 1 --optimizer adam",
    "mobilenet_v2 --batch 2 --optimizer sgd --precision bf16",
    "densenet121 --batch 1 --optimizer momentum",
)
QUICK = (3, 16)  # places in the list
QUICK_MULTIPLES = (1, 1.1)


def group_folder():
    """Where this process may make memory cgroups; None where there are none."""
    with open("/proc/self/cgroup") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controllers == "memory":
                return "/sys/fs/cgroup/memory" + path
            if controllers == "" and os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
                return "/sys/fs/cgroup" + path
    return None


class Group:
    """A memory cgroup with a limit, v1 or v2; gone at the end."""

    def __init__(self, limit_bytes):
        parent = group_folder()
        if parent is None:
            raise OSError("no memory cgroups on this machine")
        self.path = os.path.join(parent, f"plimsoll_budget_{os.getpid()}")
        os.mkdir(self.path)
        try:
            self.v1 = os.path.exists(self._file("memory.limit_in_bytes"))
            self._write("memory.limit_in_bytes" if self.v1 else "memory.max", limit_bytes)
            if os.path.exists(self._file("memory.swap.max")):
                self._write("memory.swap.max", 0)
        except OSError:
            os.rmdir(self.path)
            raise

    def _file(self, name):
        return os.path.join(self.path, name)

    def _write(self, name, value):
        with open(self._file(name), "w") as file:
            file.write(str(value))

    def peak_bytes(self):
        with open(self._file("memory.max_usage_in_bytes" if self.v1 else "memory.peak")) as file:
            return int(file.read())

    def run(self, command, environment):
        """The command's exit status and output."""
        script = 'echo $$ > "$0" && exec "$@"'
        done = subprocess.run(["sh", "-c", script, self._file("cgroup.procs"), *command], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        return done

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for _ in range(50):
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.02)  # the last process is still being taken out of it


def environment(cache):
    # Threads that wait for each other do not spin: on a busy machine that would take most of the time.
    return {**os.environ, "XDG_CACHE_HOME": cache, "OMP_WAIT_POLICY": "passive"}


def smallest_budget(binary, arguments, cache):
    command = [binary, "train", *arguments.split(), "--steps", "1", "--budget", "1MiB"]
    done = subprocess.run(command, env=environment(cache), text=True, capture_output=True, check=False)
    found = re.search(r"smallest budget: .*?\(([\d,]+) bytes\)", done.stdout + done.stderr)
    if not found:
        raise SystemExit(f"{' '.join(command)} names no smallest budget:\n{done.stdout}{done.stderr}")
    return int(found.group(1).replace(",", ""))


def train(binary, arguments, budget, cache, steps):
    """One run in a cgroup: what it predicted and what it took, or how it ended."""
    command = [binary, "train", *arguments.split(), "--steps", str(steps), "--budget", str(budget), "--json"]
    with Group(budget) as group:
        start = time.monotonic()
        done = group.run(command, environment(cache))
        run = {"configuration": arguments, "budget_bytes": budget, "status": done.returncode,
               "seconds": time.monotonic() - start, "group_bytes": group.peak_bytes()}
    if done.returncode == 0:
        told = json.loads(done.stdout)
        run.update(predicted_bytes=told["predicted_peak_bytes"], process_bytes=told["process_peak_bytes"],
                   overhead_bytes=told["overhead_bytes"], arena_bytes=told["arena_bytes"])
    else:
        run["output"] = done.stderr.strip()
    return run


def fault_of(run):
    """What does not hold of a run; empty when all does."""
    if run["status"] < 0:
        return f"killed by signal {-run['status']}"
    if run["status"] > 0:
        return f"exit status {run['status']}"
    if run["predicted_bytes"] > run["budget_bytes"]:
        return "predicted above the budget"
    if taken_bytes(run) > run["budget_bytes"]:
        return "above the budget"
    if taken_bytes(run) > run["predicted_bytes"]:
        return "above the prediction"
    return ""


def taken_bytes(run):
    return max(run["process_bytes"], run["group_bytes"])


def line_of(run):
    fault = fault_of(run)
    figures = ""
    if run["status"] == 0:
        figures = (f" {run['predicted_bytes'] / MIB:10.2f} {run['process_bytes'] / MIB:10.2f}"
                   f" {(run['predicted_bytes'] - taken_bytes(run)) / MIB:8.2f}")
    return (f"{run['configuration']:<66} {run['cache']:<5} {run['multiple']:>5} {run['budget_bytes'] / MIB:10.2f}"
            f" {run['group_bytes'] / MIB:10.2f}{figures} {run['seconds']:5.1f} s {fault}")


def summary_of(runs):
    ended = [run for run in runs if run["status"] == 0]
    slack = [run["predicted_bytes"] - taken_bytes(run) for run in ended] or [0]
    allowed = [4 * MIB + run["predicted_bytes"] // 100 for run in ended] or [0]
    above = [a - b for a, b in zip(slack, allowed)]
    return {
        "runs": len(runs),
        "killed": sum(run["status"] < 0 for run in runs),
        "refused": sum(run["status"] > 0 for run in runs),
        "above_budget": sum(taken_bytes(run) > run["budget_bytes"] for run in ended),
        "above_prediction": sum(taken_bytes(run) > run["predicted_bytes"] for run in ended),
        "median_slack_bytes": int(statistics.median(slack)),
        "largest_slack_bytes": max(slack),
        "median_above_allowed_bytes": int(statistics.median(above)),
    }


def check(arguments):
    configurations = [CONFIGURATIONS[i] for i in QUICK] if arguments.quick else CONFIGURATIONS
    if arguments.only:
        configurations = [each for each in CONFIGURATIONS if re.search(arguments.only, each)]
    multiples = arguments.multiples or (QUICK_MULTIPLES if arguments.quick else MULTIPLES)
    runs = []
    print(f"{'train':<66} {'cache':<5} {'times':>5} {'budget':>10} {'cgroup':>10} {'predicted':>10} {'process':>10}"
          f" {'slack':>8} MiB", flush=True)
    for configuration in configurations:
        with tempfile.TemporaryDirectory() as untouched:
            smallest = smallest_budget(arguments.binary, configuration, untouched)
        for multiple in multiples:
            with tempfile.TemporaryDirectory() as cache:
                for state in ("empty", "warm"):
                    budget = int(smallest * multiple)
                    run = train(arguments.binary, configuration, budget, cache, arguments.steps)
                    run.update(cache=state, multiple=multiple)
                    runs.append(run)
                    print(line_of(run), flush=True)
                    if "output" in run:
                        print("    " + run["output"].replace("\n", "\n    "), flush=True)
    return runs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?", default="build/release/cli/plimsoll")
    parser.add_argument("--quick", action="store_true", help="two configurations, two budgets")
    parser.add_argument("--only", help="configurations that match this pattern")
    parser.add_argument("--multiples", type=float, nargs="+", help="of the smallest budget")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--json", help="write all figures to this file")
    arguments = parser.parse_args()
    try:
        with Group(64 * MIB):
            pass
    except OSError as error:
        print(f"no memory cgroup can be made: {error}", file=sys.stderr)
        return NO_GROUPS
    runs = check(arguments)
    summary = summary_of(runs)
    print(json.dumps(summary, indent=2))
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"summary": summary, "runs": runs}, file, indent=1)
    return 1 if any(fault_of(run) for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
