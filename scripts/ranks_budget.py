#!/usr/bin/env python3
"""Each rank of a run in a memory cgroup of its own that is as large as its budget, the smallest that is not refused: no
rank is killed, none holds more, and losses are those of one process.

usage: scripts/ranks_budget.py BINARY [--models NAME..] [--ranks N..] [--shard HOW..] [--steps N]

Needs root, for cgroups; the status is 77 where there are none, or no mpirun.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys

from soak import MemoryGroup

MODELS = {
    "mlp": ["--batch", "12"],
    "lenet": ["--batch", "12"],
    "gpt2-nano": ["--batch", "12", "--seq", "16"],
    "p14": ["--batch", "12"],
}
SHARDS = ["none", "optimizer", "gradients"]
TOLERANCE = 1e-6
REFUSED_BYTES = 1 << 20
MOST_REFUSALS = 4
LIMIT_S = 600
SKIPPED = 77
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_btl_vader_single_copy_mechanism="none")
# A rank enters its group before it is plimsoll.
ENTER = 'eval "group=\\$GROUP_${OMPI_COMM_WORLD_RANK:-0}"; echo $$ > "$group/cgroup.procs"; exec "$@" 2>/dev/null'


class Wrong(Exception):
    pass


def train(binary, model, ranks, shard, budget_bytes, steps, groups):
    """The status, and what is printed."""
    command = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    if groups:
        command += ["sh", "-c", ENTER, "sh"]
    command += [binary, "train", model, *MODELS[model], "--steps", str(steps), "--threads", "1", "--no-measure",
                "--budget", str(budget_bytes), "--json", "--optimizer", "adam", "--clip", "1"]
    command += ["--shard", shard] if ranks > 1 else []
    environment = dict(ENVIRONMENT, **{f"GROUP_{rank}": group.path for rank, group in enumerate(groups)})
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                         timeout=LIMIT_S)
    start, end = run.stdout.find("{"), run.stdout.rfind("}")
    return run.returncode, json.loads(run.stdout[start:end + 1]) if start >= 0 else {}


def peak_bytes(group):
    for name in ("memory.max_usage_in_bytes", "memory.peak"):
        path = os.path.join(group.path, name)
        if os.path.exists(path):
            with open(path) as file:
                return int(file.read())
    return 0


def run_in_groups(binary, model, ranks, shard, budget, steps):
    """The status, what is printed, and the most that a group held; none may be killed."""
    groups = [MemoryGroup(budget) for _ in range(ranks)]
    try:
        status, result = train(binary, model, ranks, shard, budget, steps, groups)
        kills = sum(group.kills() for group in groups)
        peak = max(map(peak_bytes, groups))
    finally:
        for group in groups:
            group.close()
    if kills:
        raise Wrong(f"{kills} kills within {budget} bytes each")
    if status != 0 and "smallest_budget_bytes" not in result:
        raise Wrong(f"status {status} within {budget} bytes each")
    return status, result, peak


def check(binary, model, ranks, shard, steps, alone):
    """One row of the table; the losses of one process are put into `alone`. What MPI itself takes differs from start to
    start, so what a refusal names may be refused again."""
    status, result = train(binary, model, ranks, shard, REFUSED_BYTES, 1, [])
    refused = -1
    while status != 0:
        refused += 1
        if status != 1 or "smallest_budget_bytes" not in result or refused == MOST_REFUSALS:
            raise Wrong(f"status {status} after {refused} budgets that refusals had named")
        budget = -(-result["smallest_budget_bytes"] // 4096) * 4096
        status, result, peak = run_in_groups(binary, model, ranks, shard, budget, steps)
    losses = [step["loss"] for step in result["steps"]]
    if ranks == 1:
        alone[model] = losses
    worst = max(abs(a - b) / abs(b) for a, b in zip(losses, alone[model]))
    if worst > TOLERANCE or len(losses) != len(alone[model]):
        raise Wrong(f"losses differ by {worst:.1e} from those of one process")
    return f"{model:10} {ranks:5} {shard:10} {budget:13,} {refused:8} {peak:13,} {0:6} {worst:12.1e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=os.path.abspath)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--ranks", nargs="+", type=int, default=[2, 3, 4])
    parser.add_argument("--shard", nargs="+", choices=SHARDS, default=SHARDS)
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args()
    if shutil.which("mpirun") is None:
        print("skipped: there is no mpirun")
        sys.exit(SKIPPED)
    try:
        MemoryGroup(1 << 30).close()
    except OSError as error:
        print(f"skipped: no memory cgroups can be made here: {error}")
        sys.exit(SKIPPED)
    # `refused`: how often the smallest budget that a refusal named was refused itself.
    print(f"{'model':10} {'ranks':>5} {'shard':10} {'budget':>13} {'refused':>8} {'cgroup peak':>13} {'kills':>6} {'losses':>12}")
    wrong = 0
    alone = {}
    for model in options.models:
        for ranks, shard in [(1, "none")] + [(n, how) for n in options.ranks if n > 1 for how in options.shard]:
            try:
                print(check(options.binary, model, ranks, shard, options.steps, alone), flush=True)
            except (Wrong, subprocess.TimeoutExpired) as error:
                wrong += 1
                print(f"{model:10} {ranks:5} {shard:10} WRONG: {error}", flush=True)
    print("no rank was killed, and losses agree" if wrong == 0 else f"{wrong} runs were wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
