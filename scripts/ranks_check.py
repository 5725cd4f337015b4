#!/usr/bin/env python3
"""Kills a random rank of a run again and again: all processes must be gone within 10 s with a status that is not 0, and
the run must go on from its newest checkpoint, on another number of ranks, to the losses of a run that was never killed.

usage: scripts/ranks_check.py BINARY [--kills N] [--seed N]
"""
import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

LIMIT_S = 10
STEPS = 60
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1")


def command(binary, ranks, flags):
    launcher = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    return launcher + [binary, "train", "lenet", "--batch", "12", "--steps", str(STEPS), "--budget", "400MiB",
                       "--threads", "1", "--no-measure"] + flags


def ranks_of(pid):
    """The processes that a launcher started."""
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def losses_in(log):
    """By step; of a step that was run twice, the last."""
    losses = {}
    for line in log.read_text().splitlines() if log.exists() else []:
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue  # cut by a kill
        if "loss" in entry and "step" in entry:
            losses[entry["step"]] = entry["loss"]
    return losses


def kill_one(binary, ranks, flags, log, rng):
    """Returns why it went wrong, or nothing."""
    before = log.stat().st_size if log.exists() else 0
    run = subprocess.Popen(command(binary, ranks, flags), env=ENVIRONMENT, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while (not log.exists() or log.stat().st_size <= before) and run.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(rng.uniform(0, 0.4))
    started = ranks_of(run.pid)
    if run.poll() is not None or len(started) != ranks:
        run.wait()
        return None if run.returncode == 0 else f"ended by itself with status {run.returncode}"
    victim = rng.choice(started)
    os.kill(victim, signal.SIGKILL)
    start = time.monotonic()
    try:
        run.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        run.kill()
        return f"mpirun is there {LIMIT_S} s after a rank was killed"
    while any(map(is_alive, started)) and time.monotonic() - start < LIMIT_S:
        time.sleep(0.02)
    left = [pid for pid in started if is_alive(pid)]
    if left:
        return f"ranks {left} are there {LIMIT_S} s after one was killed"
    return "the status is 0" if run.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    kills = 0
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "alone.jsonl"
        subprocess.run(command(options.binary, 1, ["--log", str(log)]), check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        alone = losses_in(log)
        runs = 0
        while kills < options.kills:
            log = pathlib.Path(folder) / f"run{runs}.jsonl"
            flags = ["--checkpoint", f"{folder}/run{runs}", "--every", "5", "--resume", "--log", str(log)]
            for _ in range(min(4, options.kills - kills)):
                shard = ["--shard", rng.choice(["none", "optimizer", "gradients"])]
                wrong = kill_one(options.binary, rng.choice([2, 3, 4]), flags + shard, log, rng)
                if wrong:
                    sys.exit(f"kill {kills + 1}: {wrong}")
                kills += 1
            ranks = rng.choice([1, 2, 3, 4])
            subprocess.run(command(options.binary, ranks, flags), check=True, env=ENVIRONMENT,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            found = losses_in(log)
            worst = max(abs(found.get(step, float("inf")) - loss) / abs(loss) for step, loss in alone.items())
            print(f"{kills} kills, then to the end on {ranks} ranks: losses differ by {worst:.1e} at most", flush=True)
            if worst > 1e-5:
                sys.exit("the losses are not those of a run that was never killed")
            runs += 1


if __name__ == "__main__":
    main()
